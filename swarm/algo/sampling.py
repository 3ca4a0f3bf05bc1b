"""Draws the tasks of a node's own questions and the external groups that it trains on (SAPO, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from swarm.algo.advantages import is_informative
from swarm.algo.samplers import Sampler, whole_pool
from swarm.types import ScoredGroup


def choose_tasks(tasks: Sequence[str], count: int, rng: Random) -> list[str]:
    """I specialties, uniformly with replacement; the first of many are the same as of few."""
    return [rng.choice(tasks) for _ in range(count)]


def sample_external(
    pool: Sequence[ScoredGroup], count: int, rng: Random, sampler: Sampler = whole_pool
) -> list[ScoredGroup]:
    """Of a whole pool drop the groups without any advantage, then sample J; what arrived first makes no difference.

    Returns:
        At most `count` groups, fewer where the pool has fewer informative ones.
    """
    informative = [scored for scored in pool if is_informative(scored.rewards)]
    informative.sort(
        key=lambda scored: (scored.group.round, scored.group.stage, scored.group.peer_id, scored.group.slot)
    )
    return sampler(informative, count, rng)


def winners(mean_rewards: dict[str, float]) -> list[str]:
    """The peers with the best mean reward, all of them where they tie; nobody if nobody earned anything."""
    best = max(mean_rewards.values(), default=0.0)
    return sorted(node for node, reward in mean_rewards.items() if reward == best) if best > 0 else []
