"""Tells whether an adaptive rule moved J at all, and what would move it. Pure.

rows of a node ─moves_of─▶ Moves ─┐
splits of a run (a study) ────────┴ said ─▶ a sentence about a rule that never left the J it began with; else nothing
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from swarm.config import variable
from swarm.wire.metrics import MetricsRow

LEFT = 0.5
"""Groups by which J must differ from the first one to have left it: then the nearest whole J is another one."""
LARGEST_ALPHA = 1.0
LITERAL = "gradient"
"""The rule whose moves are alpha (r - b), so that its rows say what another alpha would have done."""


class Moves(NamedTuple):
    """Says where J went, of one node or of several together."""

    rounds: int
    start: float
    """J of the first round, before it was rounded, as those below."""
    last: float
    furthest: float
    """The most by which J ever differed from the first one."""
    surprise: float
    """Mean of |r - b|: a round's reward against the baseline; NaN where the rows do not tell."""

    @property
    def stayed(self) -> bool:
        """J never left the one that it began with."""
        return self.furthest < LEFT


def moves_of(rows: Sequence[MetricsRow]) -> Moves | None:
    """Returns the moves of one node; None where no rule was on. Rows are in the order of their rounds."""
    J = [float(row.adaptive_J_continuous) for row in rows if isinstance(row.adaptive_J_continuous, (int, float))]
    if not J:
        return None
    surprises = [
        abs(row.adaptive_round_reward - row.adaptive_baseline)
        for row in rows
        if isinstance(row.adaptive_baseline, (int, float)) and isinstance(row.adaptive_round_reward, (int, float))
    ]
    furthest = max(abs(value - J[0]) for value in J)
    return Moves(len(J), J[0], J[-1], furthest, fmean(surprises) if surprises else math.nan)


def together(moves: Iterable[Moves]) -> Moves | None:
    """Joins the moves of several nodes or runs: the furthest of all, means of the rest; None of none."""
    found = list(moves)
    if not found:
        return None
    surprises = [one.surprise for one in found if not math.isnan(one.surprise)]
    return Moves(
        rounds=max(one.rounds for one in found),
        start=fmean(one.start for one in found),
        last=fmean(one.last for one in found),
        furthest=max(one.furthest for one in found),
        surprise=fmean(surprises) if surprises else math.nan,
    )


def said(name: str, seen: Moves, rule: str, alpha: float) -> str:
    """Says that a rule never left its first J, and what would move it; empty where it did.

    Args:
        name: of the configuration or node.
        alpha: the rule's step size.
    """
    if not seen.stayed:
        return ""
    where = (
        f"{name} did not adapt: J began as {seen.start:.3f}, ended as {seen.last:.3f} and was never more than "
        f"{seen.furthest:.3f} away in {seen.rounds} rounds. So every round had the split of the first one."
    )
    return f"{where} {_what_moves(seen, rule, alpha)}".rstrip()


def _what_moves(seen: Moves, rule: str, alpha: float) -> str:
    if rule != LITERAL:
        return ""
    if not seen.surprise > 0:
        return "No reward differed from its baseline b, and without r - b no alpha moves J."
    step = f"A round moves J by alpha (r - b): {alpha:g} times {seen.surprise:.4f} in the mean."
    return f"{step} To leave the first J it takes {_ways(seen, alpha)}."


def _ways(seen: Moves, alpha: float) -> str:
    ways = []
    if seen.furthest > 0:
        needed = alpha * LEFT / seen.furthest
        by_alpha = f"{variable('adaptive_alpha')}={_rounded_up(needed)}"
        too_much = f"an alpha of {needed:.2g}, of which {LARGEST_ALPHA:g} is the largest"
        ways.append(by_alpha if needed <= LARGEST_ALPHA else too_much)
    if drift := abs(seen.last - seen.start):
        ways.append(f"some {seen.rounds * LEFT / drift:.0f} rounds of the same drift")
    ways.append(f"{variable('adaptive_rule')}=gradient-scaled, which takes r - b in units of its own spread")
    return ", or ".join(ways)


def _rounded_up(alpha: float) -> str:
    return f"{min(LARGEST_ALPHA, math.ceil(alpha * 100) / 100):g}"
