"""Names of the adaptive rules, in the settings and in what an experiment is recorded with."""

from __future__ import annotations

LITERAL_RULES = ("reward-trend", "gradient", "multi-signal")
"""Earlier versions knew those of SCALED_RULES by these names; see `recorded_rule`."""
_LITERAL = " (literal)"
SCALED_RULES = tuple(f"{rule}-scaled" for rule in LITERAL_RULES)
ADAPTIVE_RULES = (*LITERAL_RULES, *SCALED_RULES, "supply", "supply-measured", "random", "constant")
"""Named here for the messages; swarm.algo.registry finds them. Others are named `package.module:function`."""

MEASURING_RULES = ("supply-measured",)
"""They go by what is measured of the gradient's halves, which is measured for them."""


def recorded_rule(name: str) -> str:
    """Returns an adaptive rule as an experiment's identity names it.

    `gradient` alone was another formula in earlier versions: the one now called `gradient-scaled`. So an experiment of
    either kind never goes on with the other's, whichever version looks at it.
    """
    return name + _LITERAL if name in LITERAL_RULES else name


def rule_in_settings(recorded: str) -> str:
    """Returns the name in the settings of a rule as an experiment's identity names it."""
    return f"{recorded}-scaled" if recorded in LITERAL_RULES else recorded.removesuffix(_LITERAL)
