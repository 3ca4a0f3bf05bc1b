"""Where a round's time goes, how fast shared groups arrive, and how much of sharing hides behind compute.

    python -m benchmarks.round_breakdown [--quick] [--workers 4] [--rounds 20] [--files 100]

Two parts, both on this machine:

1. A real swarm (`swarm up`) in a temporary folder; medians over nodes and rounds of its metrics rows, the first two
   rounds left out as warm-up.
2. One receiver, as a worker has it (watcher, intake, scoring child, compute executor), while another thread publishes
   rollout files. Publish-to-pool is the time from before the write to the verified and scored group in the pool, in
   blocks that alternate: executor idle, executor training without a pause.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Set
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from benchmarks.common import arguments_of, keep, percentile
from benchmarks.swarms import run_swarm
from swarm.config import Settings
from swarm.node.base.context import NodeContext
from swarm.node.process.system import ComputeExecutor, compute_thread
from swarm.node.process.wiring import make_context
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.sharing.examination import FileNews
from swarm.node.sharing.intake import Intake, WantedDraw
from swarm.store.place import Place, open_place
from swarm.store.wake_ups import wake_ups
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring import Scorer
from swarm.tasks.universe import Universe
from swarm.types import Completion, Policy, RolloutGroup, RoundKey, ScoredGroup, TrainGroup
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.messages import MetricsRow, PolicyInfo

STEPS = ("generate", "score", "publish", "gather", "train")
PEERS = tuple(f"peer-{number}" for number in range(10))
GROUPS = 4
"""Of each peer and round."""


def breakdown(rows: list[MetricsRow]) -> dict[str, Any]:
    """Medians and 90th percentiles per step, seconds; and the share of sharing that ran while the executor worked."""
    steps = {step: [getattr(row, f"seconds_{step}") for row in rows] for step in (*STEPS, "wait", "round")}
    sharing = sum(row.seconds_sharing for row in rows)
    return {
        "rows": len(rows),
        "seconds": {step: {"median": statistics.median(v), "p90": percentile(v, 0.9)} for step, v in steps.items()},
        "sharing_seconds_per_round": sharing / len(rows),
        "sharing_hidden_share": sum(row.seconds_sharing_hidden for row in rows) / sharing if sharing else None,
        "publish_to_pool": {
            "median": statistics.median(lags := [lag for row in rows for lag in row.publish_to_pool]),
            "p99": percentile(lags, 0.99),
        },
    }


class Receiver:
    """Listens as a worker does, and tells when what of a peer's file was found."""

    def __init__(self, ctx: NodeContext, assigned: AssignedQuestions, scorer: Scorer) -> None:
        self._run = ctx.run
        self._intake = Intake(ctx, assigned, scorer, self._tell)
        self._intake.foresee(
            lambda _: WantedDraw(slots=GROUPS, count=None, trained=frozenset(), purpose=("benchmark",))
        )
        self.key = RoundKey(0)
        self.found_at: dict[tuple[str, FileNews], float] = {}
        """Monotonic seconds, by peer and what was told of it."""
        self.verified = anyio.Event()
        """Set when groups of a file were verified and scored, and are in the pool."""

    async def listen(self, tasks: TaskGroup) -> None:
        newest = [keys.rollouts(self.key)]
        run = self._run
        async with wake_ups(
            run.store, [keys.ROLLOUTS], 2.0, anyio.sleep, hints=True, among_them=lambda: newest
        ) as wakes:
            async for _ in wakes:
                newest[:] = [keys.rollouts(self.key)]
                await self._intake.look({self.key}, frozenset(PEERS), tasks)

    def next_round(self) -> RoundKey:
        """As a node closes one: peers whose groups were accepted have a clean record in the next."""
        self._intake.close_round(self.key.round)
        self.key = RoundKey(self.key.round + 1)
        return self.key

    def _tell(self, _: RoundKey, peers: Set[str], news: FileNews) -> None:
        self.found_at.update(((peer, news), time.monotonic()) for peer in peers)
        if news is FileNews.VALID:
            self.verified.set()


async def latencies(files: int) -> dict[str, list[dict[str, float]]]:
    """Seconds of each part of the way of a file, by what the executor did meanwhile."""
    from swarm.policy.policy import load_policy
    from swarm.policy.settings import GrpoConfig

    found: dict[str, list[dict[str, float]]] = {"idle": [], "training": []}
    with tempfile.TemporaryDirectory() as path, compute_thread() as thread:
        executor = ComputeExecutor(time.monotonic, thread)
        place = open_place(path)
        policy = await executor.run(partial(load_policy, "tiny-qwen2", GrpoConfig(), threads=1))
        settings = Settings(path=path, experiment="benchmark")
        assigned = AssignedQuestions(settings.seed, Universe.of(SAPO_TASKS, settings.profile))
        ctx = make_context(settings, "receiver")
        async with Scorer() as scorer, anyio.create_task_group() as tasks:
            receiver = Receiver(ctx, assigned, scorer)
            tasks.start_soon(receiver.listen, tasks)
            training = _training_groups(await _groups(scorer, assigned, PEERS[0], receiver.key))
            for round_ in range(1 + 2 * math.ceil(files / len(PEERS))):
                kind = ("training", "idle")[round_ % 2]
                async with anyio.create_task_group() as busy:
                    if kind == "training":
                        busy.start_soon(_train_forever, executor, partial(_update, policy, training))
                    for peer in PEERS:
                        groups = await _groups(scorer, assigned, peer, receiver.key)
                        way = await _one(place, peer, groups, receiver)
                        if round_:  # in the first one they are strangers
                            found[kind].append(way)
                    busy.cancel_scope.cancel()
                receiver.next_round()
            tasks.cancel_scope.cancel()
    return found


def _update(policy: Policy, groups: list[TrainGroup]) -> None:
    policy.begin_update(groups)
    policy.finish_update([])


async def _train_forever(executor: ComputeExecutor, step: Callable[[], object]) -> None:
    while True:
        await executor.run(step)


async def _one(place: Place, peer: str, groups: list[ScoredGroup], receiver: Receiver) -> dict[str, float]:
    key = receiver.key
    data = encode(to_rollout_file(groups, peer, key, time.time(), PolicyInfo(model="benchmark")))
    receiver.verified = anyio.Event()
    store = place.open("benchmark", writer=peer).store
    written_at = math.nan

    def put() -> None:
        nonlocal written_at
        store.put(keys.rollout(key, peer), data)
        written_at = time.monotonic()  # by the writing thread: what else the loop had to do is no part of it

    begun = time.monotonic()
    await to_thread.run_sync(put)
    with anyio.fail_after(30):
        await receiver.verified.wait()
    listed, verified = (receiver.found_at[peer, news] for news in (FileNews.THERE, FileNews.VALID))
    return {
        "write": written_at - begun,
        "notice and list": listed - written_at,
        "read, verify and score": verified - listed,
        "in all": verified - begun,
    }


async def _groups(scorer: Scorer, assigned: AssignedQuestions, peer: str, key: RoundKey) -> list[ScoredGroup]:
    """The groups that a peer has to answer, of eight completions, half of them right."""
    questions = await scorer.make(assigned.questions(peer, key, GROUPS))
    texts = [[f"<answer>{q.answer if n % 2 else n}</answer>" for n in range(8)] for q in questions]
    return [
        ScoredGroup(
            RolloutGroup(
                peer,
                key.round,
                key.stage,
                slot,
                question,
                tuple(Completion(text, finished=True) for text in texts[slot]),
            ),
            rewards=(0.0, 1.0) * 4,
            answered=(True,) * 8,
        )
        for slot, question in enumerate(questions)
    ]


def _training_groups(groups: list[ScoredGroup]) -> list[TrainGroup]:
    """A round's worth: eight groups with advantages."""
    return [
        TrainGroup(scored.group.question.prompt, scored.group.completions, (-1.0, 1.0) * 4, external=True)
        for scored in groups * 2
    ]


def parts_of(ways: list[dict[str, float]]) -> dict[str, Any]:
    """Percentiles of each part of the way, seconds."""
    return {
        part: {"p50": percentile(seconds, 0.5), "p90": percentile(seconds, 0.9), "p99": percentile(seconds, 0.99)}
        for part in ways[0]
        for seconds in [[way[part] for way in ways]]
    }


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--files", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.workers, arguments.rounds, arguments.files = 2, 5, 10
    rows = run_swarm(arguments.workers, arguments.rounds).rows
    lags = anyio.run(latencies, arguments.files)
    result = {
        "workers": arguments.workers,
        "rounds": arguments.rounds,
        "round": breakdown(rows),
        "publish_to_pool": {kind: {"files": len(ways), **parts_of(ways)} for kind, ways in lags.items()},
    }
    keep("round_breakdown", result, arguments)


if __name__ == "__main__":
    main()
