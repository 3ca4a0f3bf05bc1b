"""Draws the tasks of a node's own questions and the external groups that it trains on (SAPO, algorithm 1).

A sampler says by name which J of the informative external groups those are. `uniform` is the paper's, and drawn before
anything is looked at (drawing.py). The others choose among all that is there, so all of it is read, verified and scored
first: their cost grows with the swarm.

A sampler gets the informative groups of the pool in a fixed order, J, and a generator that is seeded by run, node and
round, and gives at most J of them. One that has an attribute `by_rewards` that is true gets a keyword `rewards`, too:
what the node's own questions earned, by task (OwnRewards). It looks at nothing else, so that a run can be repeated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from statistics import pvariance
from typing import NamedTuple, Self

from swarm.algo.adaptive_rule import NO_VALUES, RunningMean
from swarm.algo.advantages import is_informative
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


Sampler = Callable[[Sequence[ScoredGroup], int, Random], list[ScoredGroup]]
"""(informative groups in a fixed order, J, generator) -> at most J of them."""


UNIFORM = "uniform"
"""Needs no function: the first J informative groups of a random order."""


def whole_pool(groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
    """Samples uniformly as `uniform` does, but after the whole pool was looked at, as earlier versions did, to repeat
    their runs."""
    return rng.sample(groups, min(count, len(groups)))


def informative(groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
    """Samples without replacement, each draw in proportion to the variance of a group's rewards.

    Groups of which half the answers are right come most often, those with one odd answer among G seldom: their gradient
    rests on that one answer.
    """
    return weighted(groups, count, rng, lambda scored: pvariance(scored.rewards))


def weighted(
    groups: Sequence[ScoredGroup], count: int, rng: Random, weight: Callable[[ScoredGroup], float]
) -> list[ScoredGroup]:
    """Samples without replacement, each draw in proportion to a weight above 0.

    By exponential keys: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Information Processing
    Letters 97 (2006), where the largest u^(1/w) are the smallest -log(u)/w.
    """
    keyed = [(rng.expovariate(weight(scored)), place) for place, scored in enumerate(groups)]
    return [groups[place] for _, place in sorted(keyed)[:count]]


def balanced(groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
    """Returns the newest rounds first; of one round the tasks in turn, and of one task the peers in turn; else by
    chance.

    A uniform draw of few groups often holds several of one task, and the update then forgets the others; and old groups
    are further from what the policy would say now.
    """
    left = rng.sample(groups, len(groups))
    chosen: list[ScoredGroup] = []
    tasks: Counter[str] = Counter()
    peers: Counter[str] = Counter()
    while left and len(chosen) < count:
        following = min(left, key=lambda s: (-s.group.round, tasks[s.group.question.task], peers[s.group.peer_id]))
        left.remove(following)
        chosen.append(following)
        tasks[following.group.question.task] += 1
        peers[following.group.peer_id] += 1
    return chosen


SAMPLERS: Mapping[str, Sampler] = {"whole-pool": whole_pool, "informative": informative, "balanced": balanced}


class OwnRewards:
    """Moving averages of what a node's own questions earned, by task: over the rounds in which it was asked.

    They follow from the node's rows alone, so a node that comes back has them again.
    """

    STEP = 0.2
    """Weight of a round once five are there."""

    def __init__(self) -> None:
        self._by_task: dict[str, RunningMean] = {}

    def observe(self, rewards: Mapping[str, float]) -> None:
        """Takes up the mean rewards of one round, by task."""
        for task, reward in rewards.items():
            self._by_task[task] = self._by_task.get(task, NO_VALUES).updated(reward, self.STEP)

    @property
    def means(self) -> dict[str, float]:
        """Returns task -> mean reward, of the tasks that were asked so far."""
        return {task: mean.value for task, mean in self._by_task.items()}


def knowing(sampler: Sampler, own: OwnRewards) -> Sampler:
    """Returns the sampler as it samples after these rounds."""
    by_rewards: Callable[..., list[ScoredGroup]] = sampler
    return partial(by_rewards, rewards=own.means) if getattr(sampler, "by_rewards", False) else sampler


class PeerQuota:
    """Counts groups per peer in one pass, and takes the first `most` of each; None: it takes all."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._seen = Counter[str]()

    def takes(self, scored: ScoredGroup) -> bool:
        """Tells whether it is among the first so many of its peer."""
        self._seen[scored.group.peer_id] += 1
        return self._most is None or self._seen[scored.group.peer_id] <= self._most


def first_of_each_peer(groups: Iterable[ScoredGroup], most: int | None) -> list[ScoredGroup]:
    """Returns the groups in their order, of each peer the first so many; None: all."""
    quota = PeerQuota(most)
    return [scored for scored in groups if quota.takes(scored)]


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
