"""propositional_logic in the profiles of DRAWN_AGAIN: a conclusion from the statements together, and from none alone.

    statements ──truth tables──▶ right conclusions ─┬─▶ none: another question is drawn
                                                    └─▶ one of them, by the seed: the example

The library's own questions contradict themselves in up to a sixth of all cases, and then everything follows from them;
they pay for a statement copied, or for `(P ∨ Q)` unread. Here a conclusion has one connective at most, and is right if
it follows from all statements, and from no single one. That takes what each of them says.

A truth table is a whole number: bit k says whether the statement holds in the k-th assignment.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

TOLD = "\nGive a conclusion of one connective at most that follows from the statements together, and from none alone."
TOLD_BRIEFLY = "\nTogether, not alone."
"""What the question says besides; briefly to models of a million parameters, which spell it letter by letter."""
FIRST = "P"
"""The library names variables from here on, in the alphabet's order."""
_LITERAL = r"((?:¬\s*)*)([P-Z])"
_JOINED = rf"{_LITERAL}\s*([∧∨→↔])\s*{_LITERAL}"
_ALONE = re.compile(_LITERAL)
_BARE = re.compile(_JOINED)
_CLOSED = re.compile(rf"((?:¬\s*)*)\(\s*{_JOINED}\s*\)")
_TOKENS = re.compile(r"[¬∧∨→↔()]|[P-Z]")


class Names(NamedTuple):
    """The variables of a question, and what is true of all assignments to them."""

    tables: Mapping[str, int]
    always: int


@functools.cache
def names(count: int) -> Names:
    """Returns the first variables."""
    assignments = range(1 << count)
    tables = {chr(ord(FIRST) + n): sum(1 << a for a in assignments if a >> n & 1) for n in range(count)}
    return Names(tables, (1 << len(assignments)) - 1)


def _join(how: str, left: int, right: int, always: int) -> int:
    joins: Mapping[str, Callable[[], int]] = {
        "∧": lambda: left & right,
        "∨": lambda: left | right,
        "→": lambda: always & ~left | right,
        "↔": lambda: always & ~(left ^ right),
    }
    return joins[how]()


def table(statement: str, known: Names) -> int:
    """Returns the truth table of a statement in which every connective of two has its parentheses, as the library
    writes them.

    Raises ValueError: it is none.
    """
    values: list[int] = []
    waiting: list[str] = []
    for token in _TOKENS.findall(statement):
        if token in known.tables:
            values.append(known.tables[token])
        elif token != ")":
            waiting.append(token)
            continue
        else:
            _close(values, waiting, known.always)
        while waiting and waiting[-1] == "¬":
            waiting.pop()
            values.append(known.always & ~values.pop())
    if len(values) == 2 and len(waiting) == 1:  # the outermost pair may be left out
        _close(values, ["(", *waiting], known.always)
    if len(values) != 1:
        raise ValueError(f"no statement: {statement!r:.200}")
    return values[0]


def _close(values: list[int], waiting: list[str], always: int) -> None:
    if len(waiting) < 2 or len(values) < 2 or waiting[-2] != "(" or waiting[-1] in "¬(":
        raise ValueError("parentheses that do not hold two statements")
    how, _ = waiting.pop(), waiting.pop()
    right, left = values.pop(), values.pop()
    values.append(_join(how, left, right, always))


def table_of_answer(answer: str, known: Names) -> int | None:
    """Returns the truth table of an answer, or None: it has another form, or a variable that the question has not."""
    answer = answer.strip()
    if (alone := _ALONE.fullmatch(answer)) is not None:
        return _literal(alone.groups(), known)
    if (bare := _BARE.fullmatch(answer)) is not None:
        outer, parts = "", bare.groups()
    elif (closed := _CLOSED.fullmatch(answer)) is not None:
        outer, parts = closed.group(1), closed.groups()[1:]
    else:
        return None
    left, right = _literal(parts[:2], known), _literal(parts[3:], known)
    if left is None or right is None:
        return None
    found = _join(parts[2], left, right, known.always)
    return known.always & ~found if outer.count("¬") % 2 else found


def _literals(known: Names) -> set[int]:
    return {*known.tables.values(), *(known.always & ~one for one in known.tables.values())}


def _literal(parts: Sequence[str], known: Names) -> int | None:
    if (value := known.tables.get(parts[1])) is None:
        return None
    return known.always & ~value if parts[0].count("¬") % 2 else value


def is_right(answer: str, premises: Sequence[str], variables: int) -> bool:
    """Tells whether an answer follows from the statements together, and from none of them alone."""
    known = names(variables)
    found = table_of_answer(answer, known)
    return found is not None and _needs_all(found, [table(one, known) for one in premises])


def _needs_all(conclusion: int, premises: Sequence[int]) -> bool:
    together = functools.reduce(int.__and__, premises)
    return bool(together) and not together & ~conclusion and all(one & ~conclusion for one in premises)


@functools.cache
def conclusions(variables: int) -> Sequence[tuple[str, int]]:
    """Returns all that have another meaning than those before, simplest first, as the library writes them."""
    known = names(variables)
    literals = [sign + name for name in known.tables for sign in ("", "¬")]
    pairs = [(a, b) for a, b in itertools.combinations(literals, 2) if a[-1] != b[-1]]
    texts = [*literals, *(f"({a} {how} {b})" for a, b in pairs for how in "∧∨↔")]
    found: dict[int, str] = {}
    for text in texts:
        found.setdefault(table(text, known), text)
    return [(text, meaning) for meaning, text in found.items()]


def right_conclusions(premises: Sequence[str], variables: int) -> list[str]:
    """Returns all right answers of different meaning; none where statements contradict each other, or are only to be
    listed."""
    known = names(variables)
    tables = [table(one, known) for one in premises]
    if sum(one in _literals(known) for one in tables) > 1:  # `¬P` and `Q`: joined by `∧` they are right, unread
        return []
    return [text for text, meaning in conclusions(variables) if _needs_all(meaning, tables)]


def asked(entry: Mapping[str, Any], seed: int, told: str) -> dict[str, Any] | None:
    """Returns the library's entry as it is asked here, or None: it has no right conclusion."""
    metadata = entry["metadata"]
    found = right_conclusions(metadata["premises"], len(metadata["variables"]))
    if not found:
        return None
    example = random.Random(seed).choice(found)
    return {**entry, "question": entry["question"] + told, "metadata": {**metadata, "example_answer": example}}
