"""The scorers that look at the text of an answer alone.

`exact`: the answer is the text of its column, but for white space around it; option ignore_case.

`choice`: the answer is the letter of a choice, written B, b, (B), B) or B. and nothing else. The column has the letter,
or the choice's position as a number, from 0 on, as many datasets do.

`regex`: the column holds a regular expression of Python's, and the whole answer has to match; option ignore_case. A
pattern that takes for ever at some answer costs that answer its reward: the child is killed.
"""

from __future__ import annotations

import re
import string

from swarm.tasks.answer import ANSWER_LIMIT, CLOSE_TAG, OPEN_TAG, extract_answer
from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow

LETTERS = string.ascii_uppercase
_LETTER = re.compile(r"\(([A-Za-z])\)|([A-Za-z])[).:]?", re.ASCII)


def _exact(row: ScorerRow, answer: str) -> float:
    given, wanted = answer.strip(), row.text.strip()
    if row.options.get("ignore_case"):
        given, wanted = given.casefold(), wanted.casefold()
    return float(given == wanted)


def _check_exact(row: ScorerRow) -> None:
    """Raises ValueError where no completion's answer can be this text."""
    text = row.text.strip()
    if not text:
        raise ValueError("the answer is empty, which no completion's may be")
    if len(text) > ANSWER_LIMIT:
        raise ValueError(f"the answer has {len(text):,} characters, and of a completion {ANSWER_LIMIT:,} are read")
    if extract_answer(f"{OPEN_TAG}{text}{CLOSE_TAG}") != text:
        raise ValueError(f"the answer holds {OPEN_TAG} or {CLOSE_TAG}, which end a completion's")


def _choice(row: ScorerRow, answer: str) -> float:
    return float(_parse(answer) == _letter_of(row))


def _parse(text: str) -> str | None:
    """Returns the letter, None where the text is none."""
    found = _LETTER.fullmatch(text.strip())
    return (found[1] or found[2]).upper() if found else None


def _letter_of(row: ScorerRow) -> str:
    """Returns the letter, also where the column has a position. Raises ValueError where it names no choice."""
    position = row.text.strip()
    if position.isascii() and position.isdecimal() and int(position[:9]) < len(LETTERS):
        return LETTERS[int(position[:9])]
    letter = _parse(position)
    if letter is None:
        raise ValueError(f"expected a letter, or a number from 0 to {len(LETTERS) - 1}, got {row.truth!r:.80}")
    return letter


def _regex(row: ScorerRow, answer: str) -> float:
    return float(_pattern(row).fullmatch(answer) is not None)


def _check_regex(row: ScorerRow) -> None:
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


EXACT = ScorerFunctions(_exact, _check_exact)
CHOICE = ScorerFunctions(_choice, _letter_of, _letter_of)
REGEX = ScorerFunctions(_regex, _check_regex)
