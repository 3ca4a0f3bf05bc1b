"""The adaptive I/J rules reward-trend, gradient and multi-signal as their source defines them.

Source: docs/ADAPTIVE_IJ_ALGORITHM.md of github.com/Elrashid/rl-swarm, versions 1, 2 and 3. All numbers are from there,
and what is our choice is said below. In all three:

- J stays in [min_j, max_j], where the source has 0 and N; N is left out, so that a node always asks itself something.
- The reward is the mean per completion on the node's own questions. The code that exists of version 2 passes the sum
  over them, plus 1 where that is above 0, and so moves J further in a round.
- A trend is the relative change of the mean of the last WINDOW rounds against that of the WINDOW rounds before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

from swarm.algo.adaptive_rule import Moving, RoundSignals

WINDOW = 10
"""Rounds of each of the two means that a trend compares."""
REWARD_CHANGE = 0.05
"""A reward that changed by more than this share rises, or falls."""
VARIANCE_CHANGE = 0.1
"""A variance that grew by more than this share says that learning is unstable."""
GOOD_QUALITY, POOR_QUALITY = 0.3, 0.2
"""Swarm quality above which more is asked of the swarm, and below which less is."""
UNKNOWN_QUALITY = 0.5
"""Swarm quality before WINDOW rounds are there."""


@dataclass(frozen=True)
class RewardTrend(Moving):
    """Version 1: J - 1 after a round with the trend above 0.05, J + 1 with the trend below -0.05.

    A rising reward asks for fewer external groups, a falling one for more. The trend is 0 for the first 10 rounds; in
    rounds 11 to 19 the earlier mean is that of the fewer rounds there are.
    """

    rewards: tuple[float, ...] = ()
    """Rewards of the last 2 * WINDOW rounds."""

    @property
    def baseline(self) -> float | None:
        return earlier_mean_next(self.rewards, 1)

    def observe(self, seen: RoundSignals) -> RewardTrend:
        rewards = latest(self.rewards, seen.reward)
        trend = relative_change(rewards, 1)
        step = -1.0 if trend > REWARD_CHANGE else 1.0 if trend < -REWARD_CHANGE else 0.0
        return replace(self, j=self.moved(step), rewards=rewards)


@dataclass(frozen=True)
class Gradient(Moving):
    """Version 2: J += alpha * (r - b), b = memory * b + (1 - memory) * r, J rounded to the nearest whole number.

    r is a round's reward and b the exponential moving average, which begins as the first reward, so the first round
    moves nothing. Our choice: b is updated after the move. The source updates it before, so that a reward is held
    against an average with a share of its own; there, r - b is `memory` times what it is here.

    With rewards in [0, 1] and alpha = 0.1 a round moves J by less than 0.1. gradient-scaled moves by shares of N.
    """

    baseline: float | None = None
    """b; None before the first round."""
    to_nearest: ClassVar[bool] = True

    def observe(self, seen: RoundSignals) -> Gradient:
        if self.baseline is None:
            return replace(self, baseline=seen.reward)
        alpha, memory = self.settings.alpha, self.settings.memory
        j = self.moved(alpha * (seen.reward - self.baseline))
        return replace(self, j=j, baseline=memory * self.baseline + (1 - memory) * seen.reward)


@dataclass(frozen=True)
class MultiSignal(Moving):
    """Version 3, the first of these that holds after a round:

        reward trend > 0.05 and variance trend < 0          J - 1
        reward trend < -0.05 or variance trend > 0.1        J + 1 if swarm quality > 0.3, else J
        swarm quality < 0.2                                 J - 1

    Trends are 0 until 20 rounds are there. Swarm quality is the mean share, over the last 10 rounds, of the peers'
    groups that have some advantage; 0.5 until 10 rounds are there. Our choices: the variance of a round is that of the
    rewards of all own completions, and the share is 0 in a round without peers' groups.
    """

    rewards: tuple[float, ...] = ()
    """Rewards of the last 2 * WINDOW rounds."""
    variances: tuple[float, ...] = ()
    """Likewise."""
    qualities: tuple[float, ...] = ()
    """Likewise."""

    @property
    def baseline(self) -> float | None:
        return earlier_mean_next(self.rewards, WINDOW)

    def observe(self, seen: RoundSignals) -> MultiSignal:
        quality = seen.pool_informative / seen.pool_groups if seen.pool_groups else 0.0
        after = replace(
            self,
            rewards=latest(self.rewards, seen.reward),
            variances=latest(self.variances, seen.reward_std**2),
            qualities=latest(self.qualities, quality),
        )
        return replace(after, j=self.moved(after._step()))

    def _step(self) -> float:
        reward, variance = relative_change(self.rewards, WINDOW), relative_change(self.variances, WINDOW)
        quality = fmean(self.qualities[-WINDOW:]) if len(self.qualities) >= WINDOW else UNKNOWN_QUALITY
        if reward > REWARD_CHANGE and variance < 0:
            return -1.0
        if reward < -REWARD_CHANGE or variance > VARIANCE_CHANGE:
            return 1.0 if quality > GOOD_QUALITY else 0.0
        return -1.0 if quality < POOR_QUALITY else 0.0


def latest(values: tuple[float, ...], value: float) -> tuple[float, ...]:
    """Returns the values with one more, the last 2 * WINDOW of them."""
    return (*values, value)[-2 * WINDOW :]


def relative_change(values: Sequence[float], least: int) -> float:
    """(recent - earlier) / |earlier|: the mean of the last WINDOW values against that of those before them.

    Args:
        values: at most 2 * WINDOW.
        least: with fewer earlier values than this there is no trend: 0.
    """
    earlier = values[:-WINDOW]
    if len(earlier) < least:
        return 0.0
    mean = fmean(earlier)
    return (fmean(values[-WINDOW:]) - mean) / (abs(mean) + 1e-8)


def earlier_mean_next(values: Sequence[float], least: int) -> float | None:
    """Returns what the next round's recent mean will be held against; None while that are fewer values than `least`."""
    earlier = values[-2 * WINDOW + 1 : -WINDOW + 1]
    return fmean(earlier) if len(earlier) >= least else None
