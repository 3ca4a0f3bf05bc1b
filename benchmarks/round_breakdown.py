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

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio import to_thread

from benchmarks.common import arguments_of, keep, percentile
from benchmarks.swarms import run_swarm
from swarm.config import Settings
from swarm.node.process.executor import ComputeExecutor, compute_thread
from swarm.node.process.wiring import make_context
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.intake import Intake
from swarm.records.listing import nodes_in
from swarm.store.place import Place, open_place
from swarm.store.run import Run
from swarm.store.wake_ups import wake_ups
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring import QuestionRequest, Scorer
from swarm.tasks.universe import Universe
from swarm.types import Completion, Policy, RolloutGroup, RoundKey, ScoredGroup, TrainGroup
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.messages import MetricsRow, PolicyInfo

STEPS = ("generate", "score", "publish", "gather", "train")
BLOCKS = 10


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
        "loop_lag_max": max(row.loop_lag_max for row in rows),
    }


async def latencies(files: int) -> dict[str, list[float]]:
    """Publish-to-pool seconds, by what the executor did meanwhile."""
    from swarm.policy.policy import load_policy
    from swarm.policy.settings import GrpoConfig

    found: dict[str, list[float]] = {"idle": [], "training": []}
    with tempfile.TemporaryDirectory() as path, compute_thread() as thread:
        executor = ComputeExecutor(time.monotonic, thread)
        place = open_place(path)
        policy = await executor.run(partial(load_policy, "tiny-qwen2", GrpoConfig(), threads=1))
        async with Scorer() as scorer, anyio.create_task_group() as tasks:
            groups = await _groups(scorer)
            arrived: dict[str, anyio.Event] = {}

            async def on_arrival(key: RoundKey, peer: str, _: bool) -> None:
                arrived[peer].set()

            settings = Settings(path=path, experiment="benchmark")
            assigned = AssignedQuestions(settings.seed, Universe.of(SAPO_TASKS, settings.profile))
            ctx = make_context(settings, "receiver")
            intake = Intake(ctx, assigned, scorer, on_arrival)
            tasks.start_soon(_listen, ctx.run, intake, tasks)
            training = _training_groups(groups)
            for block in range(BLOCKS):
                kind = ("idle", "training")[block % 2]
                async with anyio.create_task_group() as busy:
                    if kind == "training":
                        busy.start_soon(_train_forever, executor, partial(_update, policy, training))
                    for number in range(files // (BLOCKS // 2)):
                        peer = f"peer-{block}-{number}"
                        arrived[peer] = anyio.Event()
                        found[kind].append(await _one(place, peer, groups, arrived[peer]))
                    busy.cancel_scope.cancel()
            tasks.cancel_scope.cancel()
    return found


async def _listen(run: Run, intake: Intake, tasks: Any) -> None:
    async with wake_ups(run.store, [keys.ROLLOUTS], 2.0, anyio.sleep, hints=True) as wakes:
        async for _ in wakes:
            publishers = nodes_in(run.store, keys.rollouts(RoundKey(0)))
            await intake.look({RoundKey(0)}, publishers, tasks)


def _update(policy: Policy, groups: list[TrainGroup]) -> None:
    policy.begin_update(groups)
    policy.finish_update([])


async def _train_forever(executor: ComputeExecutor, step: Callable[[], object]) -> None:
    while True:
        await executor.run(step)


async def _one(place: Place, peer: str, groups: list[ScoredGroup], arrived: anyio.Event) -> float:
    data = encode(to_rollout_file(groups, peer, RoundKey(0), time.time(), PolicyInfo(model="benchmark")))
    begun = time.monotonic()
    store = place.open("benchmark", writer=peer).store
    await to_thread.run_sync(store.put, keys.rollout(RoundKey(0), peer), data)
    with anyio.fail_after(30):
        await arrived.wait()
    return time.monotonic() - begun


async def _groups(scorer: Scorer) -> list[ScoredGroup]:
    """Four groups of eight completions, half of them right."""
    questions = await scorer.make([QuestionRequest(task, "tiny", 7) for task in SAPO_TASKS[:4]])
    texts = [[f"<answer>{q.answer if n % 2 else n}</answer>" for n in range(8)] for q in questions]
    return [
        ScoredGroup(
            RolloutGroup("", 0, 0, slot, question, tuple(Completion(text, finished=True) for text in texts[slot])),
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
        "publish_to_pool": {
            kind: {"files": len(v), "p50": percentile(v, 0.5), "p99": percentile(v, 0.99)} for kind, v in lags.items()
        },
    }
    keep("round_breakdown", result, arguments)


if __name__ == "__main__":
    main()
