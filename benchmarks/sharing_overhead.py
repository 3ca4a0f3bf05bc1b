"""What does sharing cost a worker's round, next to the computing alone?

    python -m benchmarks.sharing_overhead [--quick] [--threads 1] [--models tiny-qwen2,random-28m]

A real Worker (I = 4, J = 4, G = 8) runs its rounds with a real coordinator process, its scoring child and a peer whose
rollouts and rewards of every round lie in the folder from the first round on, so that nobody is waited for. All calls
to its policy are recorded. Then the same calls, same arguments and seeds, run back to back on a fresh copy of the
policy with nothing else in the process: that is the computing alone, down to the same tokens and updates. It is done
twice.

    ratio       seconds from the end of one update to the end of the next, worker / first replay: medians over rounds
    noise       the same, second replay / first replay: what the ratio is where there is nothing to be found
    1 / busy    the same from the worker's own metrics: round time over the time its compute executor worked
    slower      seconds of the calls themselves, worker / first replay: what the calls take longer beside others, by
                waiting for the interpreter, or for memory and caches that the two cores share
    processor   the same of processor time of the computing thread: waiting for the interpreter is none of it

So ratio = 1 / busy x slower, but for the policy's own pauses.

With staleness 0 a round's steps follow each other; with 1 the next round's groups are generated meanwhile.
The scoring child and the coordinator have the other core: figures are for one compute thread on at least two cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import anyio
import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.common import arguments_of, keep, summary
from benchmarks.models import FULL_ROUND_MODELS, model_folder
from benchmarks.processes import running
from swarm.config import Settings, load_settings, without_settings
from swarm.logs import configure_logging
from swarm.node.base.presence import Presence
from swarm.node.process.system import ComputeExecutor, compute_thread
from swarm.node.process.wiring import make_context, node_log
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.worker.worker import Worker
from swarm.policy.embedded import EMBEDDED, suited_learning_rate
from swarm.policy.policy import load_policy
from swarm.policy.settings import GrpoConfig
from swarm.records.files import read_state
from swarm.records.liveness import ACTIVE
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring import Scorer
from swarm.tasks.universe import Universe
from swarm.types import (
    Bill,
    Completion,
    Dialogue,
    Policy,
    Ready,
    RolloutGroup,
    RoundKey,
    ScoredGroup,
    Snapshot,
    TrainGroup,
    TrainReport,
)
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.messages import MetricsRow, PolicyInfo, RewardFile

WORKER, PEER = "worker", "peer"
GROUPS, GROUP_SIZE = 4, 8
PEER_GROUPS = 8
AHEAD = 8
WARM_UP_ROUNDS = 2
MAX_NEW_TOKENS = {"tiny-qwen2": 24, "random-28m": 24}
Result = TypeVar("Result")


@dataclass
class Recorder:
    """A policy that remembers every call, its time, and when each update was done. Implements swarm.types.Policy."""

    policy: Policy
    calls: list[Callable[[Policy], object]] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    """Of each call: seconds, and seconds of processor time of the thread that made it."""
    updates: list[float] = field(default_factory=list)
    """When each was done, monotonic seconds."""
    calls_until: list[int] = field(default_factory=list)
    """How many calls were made when each was done."""

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def tokenizer(self) -> str:
        return self.policy.tokenizer

    @property
    def bill(self) -> Bill | None:
        return self.policy.bill

    @property
    def repeats(self) -> bool:
        return self.policy.repeats

    def has_room(self, prompt: str) -> bool:
        return self.policy.has_room(prompt)

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        return self._record(lambda policy: policy.generate(prompts, group_size=group_size, seed=seed, ready=ready))

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        self._record(lambda policy: policy.begin_update(groups))

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        report = self._record(lambda policy: policy.finish_update(groups))
        self.updates.append(time.monotonic())
        self.calls_until.append(len(self.calls))
        return report

    def part(self, name: str) -> Any:
        return self.policy.part(name)

    def snapshot(self) -> Snapshot:
        return self.policy.snapshot()

    def restore(self, snapshot_dir: str) -> None:
        self.policy.restore(snapshot_dir)

    def _record(self, call: Callable[[Policy], Result]) -> Result:
        self.calls.append(call)
        begun, worked = time.monotonic(), time.thread_time()
        try:
            return call(self.policy)
        finally:
            self.took.append((time.monotonic() - begun, time.thread_time() - worked))

    def seconds_per_round(self) -> float:
        """Between the ends of updates, after the warm-up rounds and before the last, behind which nothing is
        generated; the median."""
        measured = self.updates[WARM_UP_ROUNDS:-1]
        return statistics.median(later - earlier for earlier, later in pairwise(measured))

    def seconds_of_calls(self) -> tuple[float, float]:
        """Seconds and processor time of the calls in the same rounds, together."""
        measured = self.took[self.calls_until[WARM_UP_ROUNDS] : self.calls_until[-2]]
        return sum(seconds for seconds, _ in measured), sum(worked for _, worked in measured)


def replayed(recorder: Recorder, policy: Policy) -> Recorder:
    """The recorded calls on a fresh policy, in a thread that does nothing else."""
    replay = Recorder(policy)

    def run() -> None:
        for call in recorder.calls:
            call(replay)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return replay


async def worked(settings: Settings, recorder: Recorder) -> list[MetricsRow]:
    """A worker's whole life, with a peer that has done everything before; its measured rounds."""
    with _coordinator(settings):
        async with Scorer() as scorer, anyio.create_task_group() as tasks:
            groups = await _peer_groups(scorer, settings)
            ctx = make_context(settings, PEER)
            peer = Presence(ctx, "worker", status=ACTIVE)
            await peer.register()
            tasks.start_soon(peer.keep_beating)
            tasks.start_soon(_be_done, ctx.run, groups)
            with compute_thread() as thread:
                executor = ComputeExecutor(time.monotonic, thread)
                worker = Worker(
                    make_context(settings, WORKER),
                    universe=Universe.of(SAPO_TASKS, settings.profile),
                    load_policy=lambda: recorder,
                    task_source=scorer,
                    compute=executor,
                )
                await worker.run()
            tasks.cancel_scope.cancel()
    return [
        row
        for row in read_metrics(open_place(settings.shared_folder).open(settings.experiment))[WORKER]
        if WARM_UP_ROUNDS < row.round < settings.max_rounds - 1
    ]


def _coordinator(settings: Settings) -> AbstractContextManager[object]:
    own = replace(settings, role="coordinator", node_id="coordinator")
    environment = without_settings(os.environ) | own.as_environment()
    command = [sys.executable, "-m", "services.coordinator"]
    return running(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _peer_groups(scorer: Scorer, settings: Settings) -> list[list[ScoredGroup]]:
    """Of each round the groups that are drawn for the peer, half of their answers right."""
    assigned = AssignedQuestions(settings.seed, Universe.of(SAPO_TASKS, settings.profile))
    found = []
    for round_ in range(settings.max_rounds):
        questions = await scorer.make(assigned.questions(PEER, RoundKey(round_), PEER_GROUPS))
        found.append(
            [
                ScoredGroup(
                    RolloutGroup(PEER, round_, 0, slot, question, _answers(str(question.answer))),
                    rewards=(1.0, 0.0) * (GROUP_SIZE // 2),
                    answered=(True,) * GROUP_SIZE,
                )
                for slot, question in enumerate(questions)
            ]
        )
    return found


async def _be_done(run: Run, groups: list[list[ScoredGroup]]) -> None:
    """Rollouts of the next rounds, and the reward of each round as soon as it is open: rewards of later ones would be
    those of a swarm that went on alone, and files by the dozen those of a large one, which nodes look for less often.
    """
    published = 0
    for round_ in range(len(groups)):
        while (state := read_state(run)) is None or state.round < round_:  # noqa: ASYNC110 - another process opens it
            await anyio.sleep(0.005)
        for ahead, of_round in enumerate(groups[published : round_ + AHEAD], published):
            key, published = RoundKey(ahead), ahead + 1
            rollouts = to_rollout_file(of_round, PEER, key, time.time(), PolicyInfo(model="recorded"))
            run.store.put(keys.rollout(key, PEER), encode(rollouts), durable=False)
        reward = RewardFile(round=round_, stage=0, reward=0.5, peer_id=PEER, submitted_at=time.time())
        run.store.put(keys.reward(RoundKey(round_), PEER), encode(reward), durable=False)


def _answers(right: str) -> tuple[Completion, ...]:
    texts = [right if n % 2 == 0 else f"{right} {n}" for n in range(GROUP_SIZE)]
    return tuple(Completion(f"<answer>{text}</answer>", finished=True) for text in texts)


def measure(model: str, folder: Path, staleness: int, rounds: int, threads: int) -> dict[str, float]:
    """One worker's life, and its replay."""
    rate = suited_learning_rate(model)
    load = partial(
        load_policy,
        str(folder),
        GrpoConfig(learning_rate=rate, max_new_tokens=MAX_NEW_TOKENS[model]),
        threads=threads,
        device="cpu",
    )
    with tempfile.TemporaryDirectory() as path:
        chosen: dict[str, Any] = {
            "path": path,
            "max_rounds": rounds,
            "local_groups": GROUPS,
            "external_groups": GROUPS,
            "generations": GROUP_SIZE,
            "staleness": staleness,
            "expected_workers": 2,
            "checkpoint_interval": 0,
        }
        recorder = Recorder(load())
        settings = load_settings({}, {}, **chosen)
        with configure_logging(
            [node_log(make_context(settings, WORKER))], level="error"
        ):  # what a real node writes, so that it is part of the cost
            rows = anyio.run(worked, settings, recorder)
    replay, again = replayed(recorder, load()), replayed(recorder, load())
    wall, alone = recorder.seconds_per_round(), replay.seconds_per_round()
    found = {"worker_s": wall, "compute_s": alone, "ratio": wall / alone}
    found["noise"] = again.seconds_per_round() / alone
    (calls, worked_for), (calls_alone, worked_alone) = recorder.seconds_of_calls(), replay.seconds_of_calls()
    found["slower"], found["processor"] = calls / calls_alone, worked_for / worked_alone
    found["one_over_busy"] = sum(1 / row.executor_busy for row in rows) / len(rows)
    found["external_groups"] = sum(row.external_groups for row in rows) / len(rows)
    print(f"  {model}, staleness {staleness}: {found}", file=sys.stderr)
    return found


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--models", default=",".join(FULL_ROUND_MODELS))
    arguments = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for model in arguments.models.split(","):
            folder = model_folder(model, Path(scratch), mean_length=MAX_NEW_TOKENS[model])
            small = model not in EMBEDDED
            rounds, repetitions = (5, 1) if arguments.quick else (8, 4) if small else (30, 3)
            found: dict[int, list[dict[str, float]]] = {0: [], 1: []}
            for _ in range(repetitions):
                for staleness, lives in found.items():
                    lives.append(measure(model, folder, staleness, rounds, arguments.threads))
            results[model] = {
                f"staleness_{staleness}": {name: summary(life[name] for life in lives) for name in lives[0]}
                for staleness, lives in found.items()
            } | {"rounds": rounds, "max_new_tokens": MAX_NEW_TOKENS[model]}
    keep("sharing_overhead", {"models": results}, arguments)


if __name__ == "__main__":
    main()
