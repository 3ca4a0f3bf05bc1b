"""What a round costs one node among few peers and among many: processor time, bytes, and what it asks of the place.

    publisher process: N peers that register, beat, and publish I groups and a reward in every round that opens
    measured process:  one worker of the embedded model on the same folder, and a coordinator in a process of its own

The measured worker trains on J external groups. Peers are drawn before their files are fetched, so what a round costs
follows from J and not from N (benchmarks/results/README.md). Aim: at most twice as much among 1,000 peers as among 10.

A node looks at the place every second, so rounds must take equally long to be compared: the publishers, who need most
of a second for 1,000 files, take --seconds for a round whatever their number.

    python -m benchmarks.many_peers --peers 10 100 1000 --rounds 40
    python -m benchmarks.many_peers --peers 10 100 1000 --rounds 15 --seconds 30 --bucket    # over S3, on loopback
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import arguments_of, keep
from benchmarks.processes import processor_seconds, proportional_memory, running, tree
from swarm.config import Settings
from swarm.errors import ProtocolError, StoreError
from swarm.node.sharing.admission import AssignedQuestions
from swarm.records.files import read_state
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.tasks.gym.family import GYM
from swarm.tasks.universe import Universe
from swarm.types import Completion, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.messages import MetricsRow, PeerFile, PolicyInfo, RewardFile
from tests.engines.s3_servers import BUCKET, CREDENTIALS, moto

TASK = "basic_arithmetic"
LOCAL, EXTERNAL, GENERATIONS = 4, 4, 4
EXPERIMENT = "many"
VERSION = GYM.version
QUESTIONS = GYM.behaviour()
WARM_UP = 5
"""Rounds that are not counted."""


# ── the peers ───────────────────────────────────────────────────────────────────────────────────────────────────────
class Publishers:
    """Peers that generate nothing: half of their groups have one right answer among the four."""

    def __init__(self, run: Run, settings: Settings, count: int, writers: ThreadPoolExecutor) -> None:
        self._run = run
        self._writers = writers
        self._assigned = AssignedQuestions(settings.seed, Universe.of((TASK,), settings.profile))
        self._names = [f"peer-{number:05}" for number in range(count)]
        self._beats = itertools.count(1)
        self._began = time.time()
        self._beats_every = settings.cadence.heartbeat_interval if settings.sparing else 5.0
        QUESTIONS.prepare()

    def beat_for_ever(self) -> None:
        """Peers are seen to live also while their groups are being written."""
        while True:
            began = time.monotonic()
            self._beat()
            time.sleep(max(0.0, began + self._beats_every - time.monotonic()))

    def _beat(self) -> None:
        beat = next(self._beats)
        for name in self._names:
            peer = PeerFile(
                peer_id=name,
                registered_at=self._began,
                node_role="worker",
                beat=beat,
                last_seen=time.time(),
                incarnation=name,
                model="nothing",
                heartbeat_interval=self._beats_every,
            )
            self._run.store.put(keys.peer(name), encode(peer), durable=False)

    def publish(self, key: RoundKey) -> None:
        put = []
        for name in self._names:
            file = to_rollout_file(self._groups(name, key), name, key, time.time(), PolicyInfo(model="nothing"))
            put.append(self._put(keys.rollout(key, name), encode(file)))
        wait(put)  # a reward says that the groups are there
        for name in self._names:
            reward = RewardFile(round=key.round, stage=key.stage, reward=0.1, peer_id=name, submitted_at=time.time())
            self._put(keys.reward(key, name), encode(reward))

    def _groups(self, name: str, key: RoundKey) -> list[ScoredGroup]:
        groups = []
        for slot, request in enumerate(self._assigned.questions(name, key, LOCAL)):
            question = QUESTIONS.make(request.origin(VERSION))
            right = f"<answer>{question.answer}</answer>"
            texts = [right if slot % 2 and not place else f"<answer>{place}x</answer>" for place in range(GENERATIONS)]
            completions = tuple(Completion(text, True) for text in texts)
            group = RolloutGroup(name, key.round, key.stage, slot, question, completions)
            rewards = tuple(float(text == right) for text in texts)
            groups.append(ScoredGroup(group, rewards, (True,) * GENERATIONS))
        return groups

    def _put(self, key: str, data: bytes) -> Future[None]:
        return self._writers.submit(self._run.store.put, key, data, durable=False)


def publish_for_ever(path: str, count: int, seconds: float) -> None:
    """Until it is killed: each round that opens is published, and takes so long at least."""
    settings = Settings(path=path, experiment=EXPERIMENT)
    run = open_place(path).open(EXPERIMENT, writer="publishers")
    writers = ThreadPoolExecutor(16 if settings.sparing else 1)  # in a folder one after the other, as measured before
    publishers, done, published = Publishers(run, settings, count, writers), -1, 0.0
    threading.Thread(target=publishers.beat_for_ever, daemon=True).start()
    while True:
        try:
            state = read_state(run)
        except (ProtocolError, StoreError):
            state = None
        if state and state.round > done and time.monotonic() - published > seconds:
            published = time.monotonic()
            publishers.publish(RoundKey(state.round, state.stage))
            done = state.round
        time.sleep(0.5 if settings.sparing else 0.02)


# ── the measured node ───────────────────────────────────────────────────────────────────────────────────────────────
def measure(place: str, logs: Path, peers: int, rounds: int, sampler: str, seconds: float) -> dict[str, Any]:
    """One swarm, from nothing; `logs`: folder for what its nodes say."""
    environment = os.environ | {
        "SWARM_PATH": place,
        "EXPERIMENT_NAME": EXPERIMENT,
        "MAX_ROUNDS": str(rounds),
        "NUM_TRAIN_SAMPLES": str(LOCAL),
        "NUM_TRANSPLANT_TREES": str(EXTERNAL),
        "NUM_GENERATIONS": str(GENERATIONS),
        "SWARM_TASKS": TASK,
        "SWARM_MAX_PEERS": str(max(256, peers)),
        "SWARM_SAMPLER": sampler,
        "SWARM_EXPECTED_WORKERS": str(peers + 1),
        "COORDINATOR_ROUND_INTERVAL": str(60 + 2 * seconds),
        "CHECKPOINT_INTERVAL": "0",
        "OMP_NUM_THREADS": "1",
    }
    node = [sys.executable, "-m", "swarm", "node", "--node-id"]
    publisher = multiprocessing.get_context("spawn").Process(target=publish_for_ever, args=(place, peers, seconds))
    clock = [*node, "clock", "--role", "coordinator"]
    with (
        (logs / "coordinator.log").open("wb") as said,
        (logs / "worker.log").open("wb") as told,
        running(clock, env=environment, stdout=said, stderr=said) as coordinator,
    ):
        publisher.start()
        try:
            with running([*node, "measured"], env=environment, stdout=told, stderr=told) as worker:
                spent = _watch(worker, coordinator)
        finally:
            publisher.kill()
    run = open_place(place).open(EXPERIMENT, writer="reader")
    return _figures(read_metrics(run)["measured"], spent)


class Spent(NamedTuple):
    """Processor seconds of worker and coordinator so far, and bytes of the worker's memory, at a moment of the wall
    clock."""

    at: float
    worker: float
    coordinator: float
    memory: int


def _watch(worker: subprocess.Popen[bytes], coordinator: subprocess.Popen[bytes]) -> list[Spent]:
    spent = []
    while worker.poll() is None:
        memory = proportional_memory(tree(worker.pid))
        spent.append(Spent(time.time(), processor_seconds(worker.pid), processor_seconds(coordinator.pid), memory))
        time.sleep(0.1)
    return spent


def _figures(rows: list[MetricsRow], spent: list[Spent]) -> dict[str, Any]:
    """Per round, of the rounds after the first WARM_UP."""
    begin, end = rows[WARM_UP - 1].timestamp, rows[-2].timestamp  # the last round holds the end of the node, too
    counted, between = [one for one in spent if begin <= one.at <= end], len(rows) - WARM_UP - 1
    first, last = counted[0], counted[-1]
    rows, quarter = rows[WARM_UP:], max(1, len(counted) // 4)
    quarters = [counted[start : start + quarter] for start in range(0, 4 * quarter, quarter)]
    return {
        "rounds": len(rows),
        "processor_seconds": (last.worker - first.worker) / between,
        "coordinator_processor_seconds": (last.coordinator - first.coordinator) / between,
        "bytes_fetched": statistics.fmean(row.bytes_fetched for row in rows),
        "peers_heard": statistics.median(row.peers_heard for row in rows),
        "pool_groups": statistics.median(row.pool_groups for row in rows),
        "pool_examined": statistics.fmean(row.pool_examined for row in rows),
        "external_groups": statistics.fmean(row.external_groups for row in rows),
        "seconds_round": statistics.median(row.seconds_round for row in rows),
        "memory_of_each_quarter_mb": [statistics.median(one.memory for one in part) / 2**20 for part in quarters],
        "memory_most_mb": max(one.memory for one in counted) / 2**20,
    }


def main() -> None:
    """Print what a round costs among so many peers."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--peers", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2.0, help="that a round takes at least")
    parser.add_argument("--sampler", nargs="+", default=["uniform"], help="`whole-pool`: all is examined, as before")
    parser.add_argument("--path", type=Path, help="folder to measure in (default: a temporary one)")
    parser.add_argument("--bucket", action="store_true", help="over moto's S3 server (`make .venv-servers/.installed`)")
    arguments: argparse.Namespace = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    pace = min(0.5, arguments.seconds) if arguments.quick else arguments.seconds  # memory is looked at in each round
    for sampler, peers in itertools.product(arguments.sampler, arguments.peers):
        with tempfile.TemporaryDirectory(dir=arguments.path) as folder, _bucket(arguments.bucket) as bucket:
            name, rounds = f"{sampler}, {peers} peers", 12 if arguments.quick else arguments.rounds
            found[name] = measure(bucket or folder, Path(folder), peers, rounds, sampler, pace)
            print(name, json.dumps(found[name]), flush=True)
    keep("many_peers_bucket" if arguments.bucket else "many_peers", found, arguments)


@contextmanager
def _bucket(asked: bool) -> Iterator[str]:
    """An empty bucket on loopback; nothing where none is asked for."""
    if not asked:
        yield ""
        return
    os.environ.update(CREDENTIALS)
    with moto() as port:
        yield f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{port}"


if __name__ == "__main__":
    main()
