"""`regex`: the column holds a regular expression of Python's, and the whole answer has to match; option ignore_case.

A pattern that takes for ever at some answer costs that answer its reward: the child is killed.
"""

from __future__ import annotations

import re

from swarm.tasks.dataset.scorers import ScorerRow


def score(row: ScorerRow, answer: str) -> float:
    """1 where all of the answer matches."""
    return float(_pattern(row).fullmatch(answer) is not None)


def check(row: ScorerRow) -> None:
    """Raises ValueError where the pattern is none, or matches nothing at all as well."""
    try:
        pattern = _pattern(row)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{row.truth!r:.80} is no regular expression: {error}") from None
    if pattern.fullmatch(""):
        raise ValueError(f"{row.truth!r:.80} matches the empty text, which earns nothing")


def _pattern(row: ScorerRow) -> re.Pattern[str]:
    if not isinstance(row.truth, str):
        raise ValueError(f"expected a regular expression as text, got {row.truth!r:.80}")
    return re.compile(row.truth, re.IGNORECASE if row.options.get("ignore_case") else 0)
