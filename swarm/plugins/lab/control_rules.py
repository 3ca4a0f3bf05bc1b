"""Control rules for adaptive I/J: a constant J and a random J, which ignore all signals."""

from __future__ import annotations

from dataclasses import dataclass
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
