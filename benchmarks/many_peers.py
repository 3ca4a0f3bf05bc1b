"""What a round costs one node among few peers and among many: processor time, bytes, and what it asks of the place.

    publisher process: N peers that register, beat, and publish I groups and a reward in every round that opens
    measured process:  one worker of the embedded model on the same folder, and a coordinator in a process of its own

The measured worker trains on J external groups. Peers are drawn before their files are fetched, so what a round costs
follows from J and not from N (benchmarks/results/README.md). Aim: at most twice as much among 1,000 peers as among 10.

A node looks at the place every second, so rounds must take equally long to be compared: the publishers, who need most
of a second for 1,000 files, take --seconds for a round whatever their number.

    python -m benchmarks.many_peers --peers 10 100 1000 --rounds 40
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
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.common import arguments_of, keep
from benchmarks.processes import processor_seconds, proportional_memory, tree
from swarm.config import Settings
from swarm.errors import ProtocolError, StoreError
from swarm.node.sharing.admission import AssignedQuestions
from swarm.records.files import read_state
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.tasks.gym.family import GYM
from swarm.tasks.universe import Universe
from swarm.types import Completion, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.messages import PeerFile, PolicyInfo, RewardFile

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

    def __init__(self, run: Run, settings: Settings, count: int) -> None:
        self._run = run
        self._assigned = AssignedQuestions(settings.seed, Universe.of((TASK,), settings.profile))
        self._names = [f"peer-{number:05}" for number in range(count)]
        self._beats = itertools.count(1)
        self._began = time.time()
        QUESTIONS.prepare()

    def beat(self) -> None:
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
                heartbeat_interval=5.0,
            )
            self._put(keys.peer(name), encode(peer))

    def publish(self, key: RoundKey) -> None:
        for name in self._names:
            file = to_rollout_file(self._groups(name, key), name, key, time.time(), PolicyInfo(model="nothing"))
            self._put(keys.rollout(key, name), encode(file))
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

    def _put(self, key: str, data: bytes) -> None:
        self._run.store.put(key, data, durable=False)


def publish_for_ever(path: str, count: int, seconds: float) -> None:
    """Until it is killed: each round that opens is published, and takes so long at least."""
    settings = Settings(path=path, experiment=EXPERIMENT)
    run = open_place(path).open(EXPERIMENT, writer="publishers")
    publishers, done, beaten, published = Publishers(run, settings, count), -1, 0.0, 0.0
    while True:
        if time.monotonic() - beaten > 5.0:
            publishers.beat()
            beaten = time.monotonic()
        try:
            state = read_state(run)
        except (ProtocolError, StoreError):
            state = None
        if state and state.round > done and time.monotonic() - published > seconds:
            published = time.monotonic()
            publishers.publish(RoundKey(state.round, state.stage))
            done = state.round
        time.sleep(0.02)


# ── the measured node ───────────────────────────────────────────────────────────────────────────────────────────────
def measure(path: Path, peers: int, rounds: int, sampler: str, seconds: float) -> dict[str, Any]:
    """One swarm, from nothing."""
    environment = os.environ | {
        "SWARM_PATH": str(path),
        "EXPERIMENT_NAME": EXPERIMENT,
        "MAX_ROUNDS": str(rounds),
        "NUM_TRAIN_SAMPLES": str(LOCAL),
        "NUM_TRANSPLANT_TREES": str(EXTERNAL),
        "NUM_GENERATIONS": str(GENERATIONS),
        "SWARM_TASKS": TASK,
        "SWARM_MAX_PEERS": str(max(256, peers)),
        "SWARM_SAMPLER": sampler,
        "SWARM_EXPECTED_WORKERS": str(peers + 1),
        "CHECKPOINT_INTERVAL": "0",
        "OMP_NUM_THREADS": "1",
    }
    node = [sys.executable, "-m", "swarm", "node", "--node-id"]
    publisher = multiprocessing.get_context("spawn").Process(target=publish_for_ever, args=(str(path), peers, seconds))
    with (path / "coordinator.log").open("wb") as said, (path / "worker.log").open("wb") as told:
        coordinator = subprocess.Popen(
            [*node, "clock", "--role", "coordinator"], env=environment, stdout=said, stderr=said
        )
        publisher.start()
        worker = subprocess.Popen([*node, "measured"], env=environment, stdout=told, stderr=told)
        try:
            return _watch(path, worker, coordinator)
        finally:
            publisher.kill()
            for process in (worker, coordinator):
                process.kill()
                process.wait()


def _watch(path: Path, worker: subprocess.Popen[bytes], coordinator: subprocess.Popen[bytes]) -> dict[str, Any]:
    log = path / "experiments" / EXPERIMENT / "logs" / "measured" / "metrics.jsonl"
    spent: list[tuple[int, float, float, int]] = []
    while worker.poll() is None:
        rows = log.read_bytes().count(b"\n") if log.exists() else 0
        if rows and (not spent or rows > spent[-1][0]):
            spent.append(
                (
                    rows,
                    processor_seconds(worker.pid),
                    processor_seconds(coordinator.pid),
                    proportional_memory(tree(worker.pid)),
                )
            )
        time.sleep(0.05)
    rows = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()][WARM_UP:]
    counted = [one for one in spent if one[0] >= WARM_UP]
    between, quarter = counted[-1][0] - counted[0][0], max(1, len(counted) // 4)
    quarters = [counted[start : start + quarter] for start in range(0, 4 * quarter, quarter)]
    return {
        "rounds": len(rows),
        "processor_seconds": (counted[-1][1] - counted[0][1]) / between,
        "coordinator_processor_seconds": (counted[-1][2] - counted[0][2]) / between,
        "bytes_fetched": statistics.fmean(row["bytes_fetched"] for row in rows),
        "peers_heard": statistics.median(row["peers_heard"] for row in rows),
        "pool_groups": statistics.median(row["pool_groups"] for row in rows),
        "pool_examined": statistics.fmean(row.get("pool_examined", row["pool_groups"]) for row in rows),
        "external_groups": statistics.fmean(row["external_groups"] for row in rows),
        "seconds_round": statistics.median(row["seconds_round"] for row in rows),
        "memory_of_each_quarter_mb": [statistics.median(one[3] for one in quarter) / 2**20 for quarter in quarters],
        "memory_most_mb": max(one[3] for one in counted) / 2**20,
    }


def main() -> None:
    """Print what a round costs among so many peers."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--peers", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2.0, help="that a round takes at least")
    parser.add_argument("--sampler", nargs="+", default=["uniform"], help="`whole-pool`: all is examined, as before")
    parser.add_argument("--path", type=Path, help="folder to measure in (default: a temporary one)")
    arguments: argparse.Namespace = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    pace = 0.0 if arguments.quick else arguments.seconds
    for sampler, peers in itertools.product(arguments.sampler, arguments.peers):
        with tempfile.TemporaryDirectory(dir=arguments.path) as folder:
            name = f"{sampler}, {peers} peers"
            found[name] = measure(Path(folder), peers, 8 if arguments.quick else arguments.rounds, sampler, pace)
            print(name, json.dumps(found[name]), flush=True)
    keep("many_peers", found, arguments)


if __name__ == "__main__":
    main()
