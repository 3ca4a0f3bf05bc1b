"""`exact`: the answer is the text of its column, but for white space around it; option ignore_case."""

from __future__ import annotations

from swarm.tasks.dataset.scorers import Row


def score(row: Row, answer: str) -> float:
    """1 for the very text."""
    given, wanted = answer.strip(), row.text.strip()
    if row.options.get("ignore_case"):
        given, wanted = given.casefold(), wanted.casefold()
    return float(given == wanted)


def check(row: Row) -> None:
    """An empty text is no answer. Raises ValueError."""
    if not row.text.strip():
        raise ValueError("the answer is empty, which no completion's may be")
