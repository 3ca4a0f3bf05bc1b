"""Control rules for adaptive I/J: a constant, a random and a late J, which ignore all signals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from swarm.algo.adaptive_rule import RoundSignals, RuleSettings


@dataclass(frozen=True)
class Constant:
    """J stays what it was at the start; set to another rule's mean, it tells adapting from the average split."""

    settings: RuleSettings
    baseline: None = None

    def wanted(self, rng: Random) -> float:
        return self.settings.initial_j

    def observe(self, seen: RoundSignals) -> Constant:
        return self


@dataclass(frozen=True)
class RandomSplit:
    """J uniform in min_j .. max_j, drawn anew for every round."""

    settings: RuleSettings
    baseline: None = None

    def wanted(self, rng: Random) -> float:
        return float(rng.randint(self.settings.min_j, self.settings.max_j))

    def observe(self, seen: RoundSignals) -> RandomSplit:
        return self


@dataclass(frozen=True)
class Late:
    """J is 0 for the first FROM rounds and then what it was to be at the start: peers that come late."""

    settings: RuleSettings
    rounds: int = 0
    """That are done."""
    baseline: None = None

    FROM = 50

    def wanted(self, rng: Random) -> float:
        return self.settings.initial_j if self.rounds >= self.FROM else 0.0

    def observe(self, seen: RoundSignals) -> Late:
        return replace(self, rounds=seen.round + 1)
