"""`choice`: the answer is the letter of a choice, written B, b, (B), B) or B. and nothing else.

The column has the letter, or the choice's position as a number, from 0 on, as many datasets do.
"""

from __future__ import annotations

import re
import string

from swarm.tasks.dataset.scorers import ScorerRow

LETTERS = string.ascii_uppercase
_LETTER = re.compile(r"\(([A-Za-z])\)|([A-Za-z])[).:]?", re.ASCII)


def score(row: ScorerRow, answer: str) -> float:
    """1 for the right letter."""
    return float(parse(answer) == _wanted(row))


def check(row: ScorerRow) -> None:
    """Raises ValueError where the column names no choice."""
    _wanted(row)


def parse(text: str) -> str | None:
    """Returns the letter, None where the text is none."""
    found = _LETTER.fullmatch(text.strip())
    return (found[1] or found[2]).upper() if found else None


def _wanted(row: ScorerRow) -> str:
    position = row.text.strip()
    if position.isascii() and position.isdecimal() and int(position[:9]) < len(LETTERS):
        return LETTERS[int(position[:9])]
    letter = parse(position)
    if letter is None:
        raise ValueError(f"expected a letter, or a number from 0 to {len(LETTERS) - 1}, got {row.truth!r:.80}")
    return letter


def own(row: ScorerRow) -> str:
    """Returns the letter, also where the column has a position."""
    return _wanted(row)
