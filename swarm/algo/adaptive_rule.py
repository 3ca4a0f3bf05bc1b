"""Interface of adaptive I/J rules, their inputs, and the rounding of J to a split with I + J = N.

    rows of the node ─RoundSignals─▶ Rule.observe ─▶ Rule ─wanted─▶ J, continuous ─rounded_split─▶ I + J = N

A rule holds nothing but what follows from its settings and the rounds that it has seen. So no checkpoint needs it: a
node that comes back replays its metrics rows and is exactly where it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol


class RoundSignals(NamedTuple):
    """All that a rule may know of a finished round, in the node's own scoring."""

    round: int
    reward: float
    """Mean reward per completion on the own questions."""
    reward_std: float = 0.0
    """Population standard deviation of the own completions' rewards."""
    train_reward: float = 0.0
    """Mean reward per completion over what was trained on."""
    grad_norm: float = 0.0
    local_groups: int = 0
    local_informative: int = 0
    """Own groups with some advantage."""
    external_wanted: int = 0
    external_groups: int = 0
    """External groups trained on."""
    peers: int = 0
    """Peers that were heard."""
    pool_groups: int = 0
    pool_informative: int = 0
    """Peers' groups with some advantage."""
    pool_reward: float = 0.0
    """Mean reward per completion of the peers' groups."""
    gradient_noise: float | None = None
    """Estimated variance of the gradient of one own group (swarm.algo.gradient_bias); None: it was not measured."""
    gradient_bias: float | None = None
    """Estimated squared distance of the mean gradients of own and of external groups; likewise."""


class RuleSettings(NamedTuple):
    """Holds the settings that an adaptive rule starts from."""

    total: int
    """N = I + J."""
    initial_j: float
    alpha: float
    """Step size, in (0, 1]."""
    memory: float
    """Memory of the reward baseline, in [0, 1]."""
    min_j: int
    """At least 0."""
    max_j: int
    """At most N - 1, so that a node always asks itself something."""

    def within(self, wanted: float) -> float:
        """J cut off to [min_j, max_j]."""
        return clip(wanted, self.min_j, self.max_j)


class Rule(Protocol):
    """Immutable. What it wants is cut off to [min_j, max_j], and rounded by a draw; to the nearest whole number if the
    rule has an attribute `to_nearest` that is true."""

    @property
    def baseline(self) -> float | None:
        """Returns the reward that the next round's will be held against, None if there is none (yet)."""

    def wanted(self, rng: Random) -> float:
        """J of the next round before it is rounded; `rng` is the round's own."""

    def observe(self, seen: RoundSignals) -> Rule:
        """Returns the rule after one more finished round."""


@dataclass(frozen=True)
class Moving:
    """A rule that moves J after rounds, as `observe` says."""

    settings: RuleSettings
    j: float

    def wanted(self, rng: Random) -> float:
        return self.j

    def moved(self, by: float) -> float:
        """J after a move, cut off to its bounds."""
        return self.settings.within(self.j + by)


@dataclass(frozen=True)
class RunningMean:
    """Exponential moving average that begins as a plain mean, so that no first value outweighs the next ones."""

    value: float = 0.0
    count: int = 0

    def updated(self, value: float, step: float) -> RunningMean:
        """Returns one value more; `step` is its weight once 1 / step values are there."""
        weight = max(step, 1 / (self.count + 1))
        return RunningMean(self.value + weight * (value - self.value), self.count + 1)


NO_VALUES = RunningMean()


@dataclass(frozen=True)
class RewardBaseline:
    """A reward against those of the rounds before it, in units of their own spread.

    So neither the reward's level nor its scale matters, and a round is never held against itself.
    """

    mean: RunningMean = NO_VALUES
    spread: RunningMean = NO_VALUES
    """Mean of |reward - baseline|, this round's included: the first surprise is 1 of it."""

    @property
    def value(self) -> float | None:
        return self.mean.value if self.mean.count else None

    def surprise(self, reward: float, memory: float) -> float:
        """(reward - baseline) / spread, cut off to [-1, 1]; 0 of the first round and of rewards that do not differ."""
        if not self.mean.count:
            return 0.0
        deviation = reward - self.mean.value
        spread = self.spread.updated(abs(deviation), 1 - memory).value
        rounding = 1e-9 * max(abs(reward), abs(self.mean.value))
        return clip(deviation / spread, -1.0, 1.0) if spread > rounding else 0.0

    def updated(self, reward: float, memory: float) -> RewardBaseline:
        """Returns the baseline with this round's reward, for the rounds after it."""
        spread = self.spread
        if self.mean.count:
            spread = spread.updated(abs(reward - self.mean.value), 1 - memory)
        return RewardBaseline(self.mean.updated(reward, 1 - memory), spread)


NO_REWARDS = RewardBaseline()


def clip(value: float, low: float, high: float) -> float:
    """Returns the nearest value in [low, high]."""
    return min(max(value, low), high)


class Split(NamedTuple):
    """One round's I and J."""

    local: int
    """I, at least 1."""
    external: int
    """J, at least 0."""
    continuous: float
    """What J was rounded from."""


def rounded_split(total: int, wanted: float, rng: Random | None) -> Split:
    """I + J = total, with J rounded up as often as its fraction says, so that 3.6 is 3.6 in the mean.

    Args:
        total: N, at least 1.
        wanted: J before rounding; cut off to [0, N - 1], so that a node always asks itself something.
        rng: what says how often; None: J is rounded to the nearest whole number, halves to the even one.
    """
    continuous = clip(wanted, 0.0, total - 1.0)
    whole = int(continuous)
    external = round(continuous) if rng is None else whole + (rng.random() < continuous - whole)
    return Split(total - external, external, continuous)
