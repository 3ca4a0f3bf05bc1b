"""Draws the tasks of a node's own questions and the external groups that it trains on (SAPO, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple, Self

from swarm.algo.advantages import is_informative
from swarm.algo.samplers import PeerQuota, Sampler, whole_pool
from swarm.types import ScoredGroup

_ROUNDING = 1e-9
"""So that 0.3 x 10 is 3."""


class Weighted(NamedTuple):
    """Tasks, and how often each is drawn beside the others."""

    tasks: tuple[str, ...]
    shares: tuple[float, ...] | None
    """One weight for each task; None: all are drawn alike."""

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Self:
        """Returns task -> weight above 0; weights that are all the same are none."""
        shares = tuple(weights.values())
        return cls(tuple(weights), shares if len(set(shares)) > 1 else None)

    @property
    def weights(self) -> dict[str, float]:
        """Returns task -> weight."""
        return dict(zip(self.tasks, self.shares or (1.0,) * len(self.tasks), strict=True))


def choose_tasks(mixture: Weighted, count: int, rng: Random) -> list[str]:
    """I specialties with replacement, uniformly or by their weights; the first of many are the same as of few."""
    if mixture.shares is None:
        return [rng.choice(mixture.tasks) for _ in range(count)]
    return rng.choices(mixture.tasks, mixture.shares, k=count)


def sample_external(
    pool: Sequence[ScoredGroup], count: int, rng: Random, sampler: Sampler = whole_pool, most: int | None = None
) -> list[ScoredGroup]:
    """Drops the groups of a whole pool that have no advantage, then samples J; the order of arrival makes no
    difference.

    Args:
        most: groups of one peer that the sampler may choose from, drawn uniformly; None: all of its.

    Returns:
        At most `count` groups, fewer where the pool has fewer informative ones.
    """
    informative = [scored for scored in pool if is_informative(scored.rewards)]
    informative.sort(key=_place)
    if most is not None:
        informative = sorted(first_of_each_peer(rng.sample(informative, len(informative)), most), key=_place)
    return sampler(informative, count, rng)


def _place(scored: ScoredGroup) -> tuple[int, int, str, int]:
    return scored.group.round, scored.group.stage, scored.group.peer_id, scored.group.slot


def most_of_peer(count: int, share: float) -> int | None:
    """Returns how many of J groups may be one peer's: a share, rounded down, but one in any case; None: all of them."""
    return max(1, math.floor(count * share + _ROUNDING)) if share < 1 else None


def first_of_each_peer(groups: Iterable[ScoredGroup], most: int | None) -> list[ScoredGroup]:
    """Returns the groups in their order, of each peer the first so many; None: all."""
    quota = PeerQuota(most)
    return [scored for scored in groups if quota.takes(scored)]


def winners(mean_rewards: dict[str, float]) -> list[str]:
    """Returns the peers with the best mean reward, all of them where they tie; nobody if nobody earned anything."""
    best = max(mean_rewards.values(), default=0.0)
    return sorted(node for node, reward in mean_rewards.items() if reward == best) if best > 0 else []


def expected_taken(slots: int, offered: int, share: float) -> float:
    """E[min(slots, X)] for X ~ Binomial(offered, share): the sum over k < slots of P(X > k)."""
    if share >= 1:
        return float(min(slots, offered))
    probability = (1 - share) ** offered  # of X = k
    more, taken = 1 - probability, 0.0
    for k in range(min(slots, offered)):
        taken += more
        probability *= (offered - k) / (k + 1) * share / (1 - share)
        more -= probability
    return taken
