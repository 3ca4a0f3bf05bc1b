"""Hints as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.records.hints import Hint
from swarm.views.text import shorten

MOST_LINES = 10
LONGEST_NAMES = 60
"""Characters of the names of nodes."""
LONGEST = 300
"""Characters of evidence and remedy each: they quote what peers wrote."""


def render_hints(hints: Sequence[Hint]) -> str:
    """Returns a line with the evidence and one with the remedy for each; empty where there are none."""
    lines = [line for hint in hints[:MOST_LINES] for line in _lines(hint)]
    left = len(hints) - MOST_LINES
    return "\n".join([*lines, *([f"and {left} more hints (--json shows all)"] if left > 0 else [])])


def _lines(hint: Hint) -> tuple[str, str]:
    names = shorten(", ".join(hint.nodes), LONGEST_NAMES)
    return (
        f"hint     {names}: {shorten(hint.evidence, LONGEST)}",
        f"         -> {shorten(hint.remedy, LONGEST)} ({hint.page})",
    )
