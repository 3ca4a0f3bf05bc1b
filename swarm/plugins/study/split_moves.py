"""Tells whether an adaptive rule moved J at all. Pure.

rows of a node ─moves_of─▶ Moves ─┐
splits of a run (a study) ────────┴ said ─▶ a sentence about a rule that never left the J it began with; else nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from swarm.config import variable
from swarm.wire.metrics import MetricsRow

LEFT = 0.5
"""Groups by which J must differ from the first one to have left it: then the nearest whole J is another one."""


class Moves(NamedTuple):
    """Says how far J went, of one node or of several together."""

    rounds: int
    furthest: float
    """The most by which J, before it was rounded, ever differed from that of the first round."""


def moves_of(rows: Sequence[MetricsRow]) -> Moves | None:
    """Returns the moves of one node; None where no rule was on. Rows are in the order of their rounds."""
    J = [float(row.adaptive_J_continuous) for row in rows if isinstance(row.adaptive_J_continuous, (int, float))]
    return Moves(len(J), max(abs(value - J[0]) for value in J)) if J else None


def together(moves: Iterable[Moves]) -> Moves | None:
    """Joins the moves of several nodes or runs: the most of each; None of none."""
    found = list(moves)
    return Moves(*map(max, zip(*found, strict=True))) if found else None


def said(name: str, seen: Moves) -> str:
    """Says that the rule of a configuration never left its first J, and what moves it more; empty where it did."""
    if seen.furthest >= LEFT:
        return ""
    return (
        f"{name} did not adapt: J was never more than {seen.furthest:.3f} away from its first value in {seen.rounds} "
        f"rounds, so every round had the split of the first one. More rounds, a larger {variable('adaptive_alpha')} or "
        f"{variable('adaptive_rule')}=gradient-scaled, which takes rewards in units of their own spread, move J further"
    )
