"""`exact`: the answer is the text of its column, but for white space around it; option ignore_case."""

from __future__ import annotations

from swarm.tasks.answer import ANSWER_LIMIT, CLOSE_TAG, OPEN_TAG, extract_answer
from swarm.tasks.dataset.scorers import ScorerRow


def score(row: ScorerRow, answer: str) -> float:
    """1 for the very text."""
    given, wanted = answer.strip(), row.text.strip()
    if row.options.get("ignore_case"):
        given, wanted = given.casefold(), wanted.casefold()
    return float(given == wanted)


def check(row: ScorerRow) -> None:
    """Raises ValueError where no completion's answer can be this text."""
    text = row.text.strip()
    if not text:
        raise ValueError("the answer is empty, which no completion's may be")
    if len(text) > ANSWER_LIMIT:
        raise ValueError(f"the answer has {len(text):,} characters, and of a completion {ANSWER_LIMIT:,} are read")
    if extract_answer(f"{OPEN_TAG}{text}{CLOSE_TAG}") != text:
        raise ValueError(f"the answer holds {OPEN_TAG} or {CLOSE_TAG}, which end a completion's")
