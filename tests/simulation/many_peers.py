"""A real worker and its coordinator among thousands of scripted peers, in virtual time on the memory store.

    scripted peers: register, beat every 5 s, publish I groups and a reward every round ─▶ memory store ◀─ worker
                                                                                               ◀─ coordinator

    python -m tests.simulation.many_peers --peers 10 1000 10000 --rounds 20 [--bucket]

With --bucket each request is paid for: rounds of a minute, a beat of each peer every other minute.

What is counted is the worker's: what it asks of the store, what it reads, and the processor time of all but the peers.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from statistics import fmean
from typing import Any, ParamSpec, TypeVar

import anyio
import msgspec
import structlog

from swarm.config import Settings
from swarm.config.place import CADENCE
from swarm.config.settings import CadenceTable, LimitsTable
from swarm.node.base.context import Clock, NodeContext, ProcessIdentity, Timed, Timeline, generate_now
from swarm.node.coordinator.coordinator import Coordinator
from swarm.node.worker.worker import Worker
from swarm.records.files import read_state
from swarm.store.base import Blob, Entry, Page
from swarm.store.run import Run
from swarm.types import GenerationCall, Generator, Groups, RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import RewardFile
from swarm.wire.metrics import MetricsRow
from tests.doubles.memory import MemoryPlace, MemoryStore
from tests.simulation.virtual_time import VirtualLoop
from tests.unit.node.factories import UNIVERSE, FakePolicy, FakeTaskSource, make_peer, make_rollouts

P = ParamSpec("P")
Result = TypeVar("Result")

EXPERIMENT = "many"
UNIX_TIME = 1.8e9
GROUPS = 4
"""I and J."""
STEP = 0.2
"""Seconds between two looks of the peers."""
WARM_UP = 5
"""Rounds that are not counted."""


class CountingStore(MemoryStore):
    """Counts what is asked of it."""

    def __init__(self, place: MemoryPlace, writer: str) -> None:
        super().__init__(place, writer)
        self.asked: Counter[str] = Counter()

    def get(self, key: str, limit: int) -> Blob:
        blob = super().get(key, limit)
        self.asked["reads"] += 1
        self.asked["bytes"] += len(blob.data)
        return blob

    def stat(self, key: str) -> Entry | None:
        self.asked["looks"] += 1
        return super().stat(key)

    def list(self, prefix: str, **more: Any) -> Page:  # type: ignore[override]
        self.asked["listings"] += 1
        return super().list(prefix, **more)


class _Inline:
    """Blocking work, at once, after a millisecond."""

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        await asyncio.sleep(0.001)
        return call(*args, **kwargs)

    run_or_leave = run


class _Compute:
    """Each step takes so many seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._seconds = seconds
        self.busy = Timeline(clock.monotonic)

    async def run(self, step: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        with self.busy.running():
            await asyncio.sleep(self._seconds)
            return step(*args, **kwargs)

    async def generate(self, generator: Generator, call: GenerationCall, timed: Timed = nullcontext) -> Groups:
        return await self.run(generate_now, generator, call, timed)

    def tell(self, call: Callable[[], None]) -> None:
        call()


class Swarm:
    """Of one worker and so many scripted peers."""

    def __init__(self, peers: int, rounds: int, *, bucket: bool = False) -> None:
        self._bucket = bucket
        self.loop = VirtualLoop()
        self._place = MemoryPlace()
        self._names = [f"peer-{number:05}" for number in range(peers)]
        self._rounds = rounds
        self._published = 0.0
        """Processor seconds that the peers have taken."""
        self.store = CountingStore(self._place, "measured")

    def run(self) -> dict[str, float]:
        """What a round took, on average over those that are counted."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(self._live())

    def _context(self, name: str, store: MemoryStore, role: str) -> NodeContext:
        clock = Clock(self.loop.time, lambda: UNIX_TIME + self.loop.time(), anyio.sleep, anyio.move_on_after)
        settings = Settings(
            path="s3://nowhere" if self._bucket else "nowhere",
            experiment=EXPERIMENT,
            role="coordinator" if role == "coordinator" else "worker",
            node_id=name,
            model=("fake",),
            max_rounds=self._rounds,
            local_groups=GROUPS,
            external_groups=GROUPS,
            generations=4,
            checkpoint_interval=0,
            expected_workers=len(self._names) + 1,
            limits=LimitsTable(max_peers=max(256, len(self._names))),
            cadence=CadenceTable(watch="off", **(CADENCE if self._bucket else {})),
        )
        identity = ProcessIdentity("here", 1, 0.0, f"life of {name}", b"secret", lambda pid, began: True)
        return NodeContext(settings, name, Run(EXPERIMENT, store), clock, _Inline(), identity)

    async def _live(self) -> dict[str, float]:
        worker_ctx = self._context("measured", self.store, "worker")
        worker = Worker(
            worker_ctx,
            universe=UNIVERSE,
            load_policy=FakePolicy,
            task_source=FakeTaskSource(),
            compute=_Compute(worker_ctx.clock, 20.0 if self._bucket else 0.5),
        )
        coordinator = Coordinator(self._context("clock", CountingStore(self._place, "clock"), "coordinator"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._publish)
            tasks.start_soon(coordinator.run)
            result = await self._watch(worker, tasks)
            tasks.cancel_scope.cancel()
        return result

    async def _watch(self, worker: Worker, tasks: Any) -> dict[str, float]:
        tasks.start_soon(worker.run)
        await self._until(WARM_UP)
        first, asked, spent = len(self._rows()), Counter(self.store.asked), time.process_time() - self._published
        await self._until(self._rounds)
        rows = self._rows()[first:]
        took = time.process_time() - self._published - spent
        counted = {what: (self.store.asked[what] - asked[what]) / len(rows) for what in self.store.asked}
        return counted | {
            "processor_seconds": took / len(rows),
            "virtual_seconds": fmean(row.seconds_round for row in rows),
            "peers_heard": fmean(row.peers_heard for row in rows),
            "pool_groups": fmean(row.pool_groups for row in rows),
            "pool_examined": fmean(row.pool_examined for row in rows),
            "external_groups": fmean(row.external_groups for row in rows),
        }

    async def _until(self, rows: int) -> None:
        while len(self._rows()) < rows:  # noqa: ASYNC110 - time is made up, and costs nothing
            await asyncio.sleep(0.2)

    def _rows(self) -> list[MetricsRow]:
        records = self._place.open().read_records(keys.metrics("measured")).records
        return [msgspec.json.decode(record, type=MetricsRow) for record in records]

    # ── the peers ───────────────────────────────────────────────────────────────────────────────────────────────────
    async def _publish(self) -> None:
        store = self._place.open("peers")
        done, beats, apart = -1, 0, 120.0 if self._bucket else 5.0
        while True:
            began = time.process_time()
            if beats % round(apart / STEP) == 0:
                for name in self._names:
                    peer = make_peer(name, beat=beats + 1, last_seen=UNIX_TIME + self.loop.time(), status="active")
                    store.put(keys.peer(name), encode(peer))
            beats += 1
            state = read_state(Run(EXPERIMENT, store))
            if state and state.round > done:
                done = state.round
                self._publish_round(store, RoundKey(done))
            self._published += time.process_time() - began
            await asyncio.sleep(STEP)

    def _publish_round(self, store: MemoryStore, key: RoundKey) -> None:
        for name in self._names:
            store.put(keys.rollout(key, name), encode(make_rollouts(name, key, groups=GROUPS)))
        for name in self._names:
            reward = RewardFile(
                round=key.round, stage=key.stage, reward=0.5, peer_id=name, submitted_at=UNIX_TIME + self.loop.time()
            )
            store.put(keys.reward(key, name), encode(reward))


def main() -> None:
    """Print what a round costs among so many peers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, nargs="+", default=[10, 1000, 10000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--bucket", action="store_true")
    arguments = parser.parse_args()
    for peers in arguments.peers:
        found = Swarm(peers, arguments.rounds, bucket=arguments.bucket).run()
        print(f"{peers} peers:", ", ".join(f"{what} {number:.3g}" for what, number in found.items()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
