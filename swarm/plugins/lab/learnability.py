"""A sampler that prefers peers' groups of tasks at which the own policy is bad: learnability, by task.

What a right answer teaches. A policy gives an answer a of a question the probability p = softmax(z)_a. A step of size s
on log p, as GRPO makes for a completion of a peer, moves the logits by s (1 - p) for a and by -s p_b for each other b,
so that to first order

    log p grows by s [(1 - p)^2 + sum over b of p_b^2],        with (1 - p)^2 / (K - 1) <= sum <= (1 - p)^2

for K answers in all: by (1 - p)^2 up to a factor between 1 and 2. Nothing is left to learn where p is near 1. So an
external group of a task is drawn in proportion to (1 - r)^2, where r is the mean reward of the node's own questions of
that task, a moving average: its estimate of p there. A task that it was not asked yet counts as r = 0.

Own questions stay assigned and uniform, so that the reward means what it meant. Whether a group is informative, the
pool is asked first, as by every sampler; of the tasks that the node masters its peers' groups are often not.

    SWARM_SAMPLER=swarm.plugins.lab.learnability:learnability
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from swarm.algo.sampling import weighted
from swarm.types import ScoredGroup

LEAST = 1e-3
"""Least weight of a group: what nobody can improve on is drawn where nothing else is there."""


def learnability(
    groups: Sequence[ScoredGroup], count: int, rng: Random, rewards: Mapping[str, float]
) -> list[ScoredGroup]:
    """Samples without replacement, each draw in proportion to (1 - r)^2 of a group's task.

    Args:
        rewards: task -> mean reward of the own questions, 0 to 1.
    """

    def weight(scored: ScoredGroup) -> float:
        left = 1.0 - min(1.0, max(0.0, rewards.get(scored.group.question.task, 0.0)))
        return max(LEAST, left**2)

    return weighted(groups, count, rng, weight)


learnability.by_rewards = True  # type: ignore[attr-defined]
