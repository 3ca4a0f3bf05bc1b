"""Rules of our own that follow the node's reward: reward-trend-scaled, gradient-scaled, multi-signal-scaled.

All of them measure the reward in units of its own spread, so that rewards ten times as large move J no further.
The rules that they are named after, which look at the reward as it is, are in literal_rules.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean

from swarm.algo.adaptive_rule import (
    NO_REWARDS,
    NO_VALUES,
    Moving,
    RewardBaseline,
    RoundSignals,
    RuleSettings,
    RunningMean,
    clip,
)

TREND_WINDOW = 5
"""Rounds that a move of reward-trend-scaled is given to show its effect; one round's reward is mostly noise."""
VARIANCE_WEIGHT = 0.5
"""Own groups that teach nothing say at once, and with G x I completions behind it, what an own slot is worth."""
QUALITY_WEIGHT = 0.3
"""Peers that answer better have something to teach; but who is equally good may have, too, so it counts for less."""
TREND_WEIGHT = 0.2
"""The reward mostly rises while a swarm learns, whatever the split: the weakest of the three."""


@dataclass(frozen=True)
class RewardTrendScaled(Moving):
    """Hill climbing: go on as long as the reward rises, else turn round.

    Every TREND_WINDOW rounds, the mean reward of these rounds is held against that of the window before. Risen: the
    next move has the direction of the last one. Not risen: the other one. The move is

        J += alpha * N * direction * min(1, |difference| / spread)

    with the spread as the mean of |difference| so far (memory: baseline_alpha). The first window is followed by a whole
    step towards sharing, for without a move there is nothing to judge. At an end of the range J stays until the reward
    falls.
    """

    direction: float = 1.0
    window: tuple[float, ...] = ()
    """Rewards since the last move."""
    earlier: float | None = None
    """Mean reward of the window before."""
    spread: RunningMean = NO_VALUES

    @property
    def baseline(self) -> float | None:
        return self.earlier

    def observe(self, seen: RoundSignals) -> RewardTrendScaled:
        window = (*self.window, seen.reward)
        if len(window) < TREND_WINDOW:
            return replace(self, window=window)
        recent = fmean(window)
        return self._judged(recent)._moved(recent)

    def _judged(self, recent: float) -> RewardTrendScaled:
        if self.earlier is None:
            return self
        difference = recent - self.earlier
        spread = self.spread.updated(abs(difference), 1 - self.settings.memory)
        return replace(self, direction=self.direction if difference > 0 else -self.direction, spread=spread)

    def _moved(self, recent: float) -> RewardTrendScaled:
        size = 1.0 if self.earlier is None else _share(abs(recent - self.earlier), self.spread.value)
        j = self.moved(self.settings.alpha * self.settings.total * self.direction * size)
        return replace(self, j=j, window=(), earlier=recent)


@dataclass(frozen=True)
class Surprised(Moving):
    """One that holds each round's reward against those before it."""

    rewards: RewardBaseline = NO_REWARDS

    @property
    def baseline(self) -> float | None:
        return self.rewards.value


@dataclass(frozen=True)
class GradientScaled(Surprised):
    """J += alpha * N * clip((reward - baseline) / spread, -1, 1).

    The baseline is the moving average (memory: baseline_alpha) of the rounds before this one, the spread that of
    |reward - baseline|. Better than usual: more from the swarm; worse: more of one's own. It does not know what made
    the reward rise: while it rises steadily J goes to its upper end, until too few questions are left and it falls.
    """

    def observe(self, seen: RoundSignals) -> GradientScaled:
        settings = self.settings
        step = settings.alpha * settings.total * self.rewards.surprise(seen.reward, settings.memory)
        return replace(self, j=self.moved(step), rewards=self.rewards.updated(seen.reward, settings.memory))


@dataclass(frozen=True)
class MultiSignalScaled(Surprised):
    """J += alpha * N * (weighted sum of three signals, each in [-1, 1], whose weights add up to 1).

    variance   1 - 2 x the share of own groups with some advantage: own questions that teach nothing say "share"
    quality    (pool's reward - own reward) / the larger of them: peers that answer better say "share"
    trend      the surprise of gradient-scaled x the direction of the last move: what worked is gone on with
    """

    direction: float = 1.0

    def observe(self, seen: RoundSignals) -> MultiSignalScaled:
        settings = self.settings
        trend = self.direction * self.rewards.surprise(seen.reward, settings.memory)
        signal = VARIANCE_WEIGHT * _variance(seen) + QUALITY_WEIGHT * _quality(seen) + TREND_WEIGHT * trend
        return replace(
            self,
            j=self.moved(settings.alpha * settings.total * signal),
            direction=math.copysign(1.0, signal) if signal else self.direction,
            rewards=self.rewards.updated(seen.reward, settings.memory),
        )


def _variance(seen: RoundSignals) -> float:
    return 1 - 2 * seen.local_informative / seen.local_groups if seen.local_groups else 0.0


def _quality(seen: RoundSignals) -> float:
    larger = max(seen.pool_reward, seen.reward)
    return clip((seen.pool_reward - seen.reward) / larger, -1.0, 1.0) if seen.pool_groups and larger > 0 else 0.0


def _share(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole > 0 else 0.0


def reward_trend(settings: RuleSettings) -> RewardTrendScaled:
    """Makes reward-trend-scaled, for `swarm.rules`."""
    return RewardTrendScaled(settings, settings.initial_j)


def gradient(settings: RuleSettings) -> GradientScaled:
    """Makes gradient-scaled, for `swarm.rules`."""
    return GradientScaled(settings, settings.initial_j)


def multi_signal(settings: RuleSettings) -> MultiSignalScaled:
    """Makes multi-signal-scaled, for `swarm.rules`."""
    return MultiSignalScaled(settings, settings.initial_j)
