"""Samplers: which J of the informative external groups a node trains on, by name.

`uniform` is the paper's, and drawn before anything is looked at (drawing.py). The others choose among all that is
there, so all of it is read, verified and scored first: their cost grows with the swarm.

A sampler gets the informative groups of the pool in a fixed order, J, and a generator that is seeded by run, node and
round, and gives at most J of them. One that has an attribute `by_rewards` that is true gets a keyword `rewards`, too:
what the node's own questions earned, by task (OwnRewards). It looks at nothing else, so that a run can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from statistics import pvariance

from swarm.algo.adaptive_rule import NO_VALUES, RunningMean
from swarm.types import ScoredGroup

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
