"""Scored groups that say no more than sampling looks at, and rounds that say no more than a rule does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from swarm.algo.adaptive_rule import RoundSignals, Rule, RuleSettings
from swarm.algo.registry import adaptive_rule
from swarm.types import Completion, Origin, Question, RolloutGroup, ScoredGroup

INFORMATIVE = (0.0, 1.0)
UNINFORMATIVE = (1.0, 1.0)


def make_scored(
    peer: str = "anna",
    slot: int = 0,
    *,
    round_: int = 0,
    stage: int = 0,
    rewards: Sequence[float] = INFORMATIVE,
    task: str = "basic_arithmetic",
) -> ScoredGroup:
    """One group, with as many completions as rewards."""
    group = RolloutGroup(
        peer_id=peer,
        round=round_,
        stage=stage,
        slot=slot,
        question=Question(prompt="1 + 1?", origin=Origin(task, "tiny", slot, 0, "0.1.25")),
        completions=tuple(Completion(text=str(reward), finished=True) for reward in rewards),
    )
    return ScoredGroup(group, tuple(rewards), (True,) * len(rewards))


def make_pool(count: int) -> list[ScoredGroup]:
    """So many informative groups, by four peers."""
    return [make_scored(f"peer-{number % 4}", number // 4) for number in range(count)]


def make_seen(round_: int = 0, reward: float = 0.5, **more: Any) -> RoundSignals:
    """A finished round with 4 own groups, half of them informative, and a pool of 28 as good as they."""
    fields: dict[str, Any] = {
        "reward_std": 0.0,
        "train_reward": reward,
        "grad_norm": 0.0,
        "local_groups": 4,
        "local_informative": 2,
        "external_wanted": 4,
        "external_groups": 4,
        "peers": 7,
        "pool_groups": 28,
        "pool_informative": 14,
        "pool_reward": reward,
        **more,
    }
    return RoundSignals(round_, reward, **fields)


def make_rule(
    name: str,
    *,
    total: int = 8,
    initial_j: float = 4.0,
    alpha: float = 0.1,
    memory: float = 0.95,
    min_j: int = 0,
    max_j: int | None = None,
) -> Rule:
    """One of our rules before its first round."""
    highest = total - 1 if max_j is None else max_j
    return adaptive_rule(name)(RuleSettings(total, initial_j, alpha, memory, min_j, highest))


def j_of(rule: Rule) -> float:
    return rule.wanted(Random(0))


def path_of(rule: Rule, rounds: Sequence[RoundSignals]) -> list[float]:
    """J after each round."""
    path = []
    for seen in rounds:
        rule = rule.observe(seen)
        path.append(j_of(rule))
    return path


def rewarded(*rewards: float) -> list[RoundSignals]:
    return [make_seen(round_, reward) for round_, reward in enumerate(rewards)]
