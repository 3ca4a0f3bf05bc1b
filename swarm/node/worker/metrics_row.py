"""The metrics row of one node and round: what each column is made of."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import pstdev

from swarm.algo.advantage import is_informative
from swarm.node.sharing.trained_groups import name_of
from swarm.node.worker.round_work import RoundWork, mean
from swarm.tasks.scoring import FULL_ANSWER
from swarm.types import ScoredGroup
from swarm.wire.messages import MetricsRow


def reward_columns(work: RoundWork) -> dict[str, object]:
    """The columns that tell how well the node answered."""
    rewards = [reward for scored in work.own for reward in scored.rewards]
    by_task: dict[str, list[float]] = defaultdict(list)
    for scored in work.own:
        by_task[scored.group.question.task].extend(scored.rewards)
    return {
        "my_reward": work.my_reward,
        "full_answer_rate": mean(reward >= FULL_ANSWER for reward in rewards),
        "answer_tag_rate": mean(flag for scored in work.own for flag in scored.answered),
        "finished_rate": mean(c.finished for scored in work.own for c in scored.group.completions),
        "task_rewards": {task: mean(values) for task, values in sorted(by_task.items())},
        "reward_std": pstdev(rewards) if rewards else 0.0,
        "train_reward": mean(r for scored in [*work.own, *work.external] for r in scored.rewards),
        "local_groups": len(work.own),
        "zero_advantage_local": mean(not is_informative(scored.rewards) for scored in work.own),
    }


def sharing_columns(work: RoundWork) -> dict[str, object]:
    """The columns that tell what came from peers."""
    return {
        "external_groups": len(work.external),
        "trained_on": [str(name_of(scored.group)) for scored in work.external],
        "external_unverified": sum(not s.group.question.verifiable for s in work.external),
        "external_by_model": dict(sorted(Counter(s.group.model for s in work.external).items())),
        "external_by_peer": dict(sorted(Counter(s.group.peer_id for s in work.external).items())),
        "external_by_peer_task": _by_peer_and_task(work.external),
        "pool_groups": len(work.pool),
        "pool_informative": sum(is_informative(scored.rewards) for scored in work.pool),
        "pool_reward": mean(reward for scored in work.pool for reward in scored.rewards),
        "peers_heard": len(work.heard),
        "peers_awaited": len(work.awaited),
        "gather_timed_out": work.timed_out,
        "late": work.late,
        "staleness": mean(work.key.round - scored.group.round for scored in work.external),
        "bytes_published": work.bytes_published,
    }


def _by_peer_and_task(external: Sequence[ScoredGroup]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for scored in external:
        counts[scored.group.peer_id][scored.group.question.task] += 1
    return {peer: dict(sorted(tasks.items())) for peer, tasks in sorted(counts.items())}


def training_columns(work: RoundWork) -> dict[str, object]:
    """The columns that tell what the update did, and what was generated for it."""
    report = work.report
    generated = [] if work.adopted else work.own  # those taken up after a crash were counted nowhere, or before it
    tokens = sum(len(c.token_ids or ()) for scored in generated for c in scored.group.completions)
    columns: dict[str, object] = {"tokens_generated": tokens, "generated_ahead": work.ahead}
    if report:
        columns |= {
            "tokens_trained": report.trained_tokens,
            "loss": _finite(report.loss),
            "grad_norm": _finite(report.grad_norm),
            "clip_fraction": _finite(report.clip_fraction),
            "kl": _finite(report.kl),
            "logprob_drift": _finite(report.logprob_drift),
            "updated": report.updated,
            "groups_too_long": report.groups_too_long,
            "memory_halvings": report.memory_halvings,
            "seconds_lease": report.seconds_lease,
            "importance_tokens": report.importance_tokens,
            "importance_mean": _finite(report.importance_mean),
        }
    return columns


def _finite(value: float) -> float:
    """JSON knows no other numbers; a step that was not finite is seen by `updated`."""
    return value if math.isfinite(value) else 0.0


def metrics_row(work: RoundWork, **more: object) -> MetricsRow:
    """One row per node and round; `more` holds what the round does not know by itself."""
    columns: dict[str, object] = {
        "round": work.key.round,
        "stage": work.key.stage,
        "clock": work.clock,
        **reward_columns(work),
        **sharing_columns(work),
        **training_columns(work),
        **{f"seconds_{step}": seconds for step, seconds in work.seconds.items()},
        "seconds_wait": work.waited,
        **more,
    }
    return MetricsRow(**columns)  # type: ignore[arg-type]
