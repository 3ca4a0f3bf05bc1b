"""The adaptive rules by name (see adaptive_rule.py for what a rule is)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swarm.sapo.adaptive_rule import Rule, RuleSettings
from swarm.sapo.control_rules import Constant, RandomSplit
from swarm.sapo.reward_rules import Gradient, MultiSignal, RewardTrend
from swarm.sapo.supply_rule import Supply

MakeRule = Callable[[RuleSettings], Rule]

RULES: Mapping[str, MakeRule] = {
    "reward-trend": lambda settings: RewardTrend(settings, settings.initial_j),
    "gradient": lambda settings: Gradient(settings, settings.initial_j),
    "multi-signal": lambda settings: MultiSignal(settings, settings.initial_j),
    "supply": Supply,
    "random": RandomSplit,
    "constant": Constant,
}
