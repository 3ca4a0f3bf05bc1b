"""propositional_logic in the profiles of DRAWN_AGAIN: a conclusion from the statements together, and from none alone.

    statements ──truth tables──▶ right conclusions ─┬─▶ none: another question is drawn
                                                    └─▶ one of them, by the seed: the example

The library's own questions contradict themselves in up to a sixth of all cases, and then everything follows from them;
they pay for a statement copied, or for `(P ∨ Q)` unread. Here a conclusion has one connective at most, and is right if
it follows from all statements, and from no single one. That takes what each of them says.

A truth table is a whole number: bit k says whether the statement holds in the k-th assignment.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from swarm.tasks.gym.safe_eval import Reader

TOLD = "\nGive a conclusion of one connective at most that follows from the statements together, and from none alone."
TOLD_BRIEFLY = "\nTogether, not alone."
"""What the question says besides; briefly to models of a million parameters, which spell it letter by letter."""
FIRST = "P"
"""The library names variables from here on, in the alphabet's order."""
_LITERAL = "¬*[P-Z]"
_BINARY = f"{_LITERAL}[∧∨→↔]{_LITERAL}"
_ANSWER = re.compile(rf"{_LITERAL}|{_BINARY}|¬*\({_BINARY}\)")
_AS_PYTHON = str.maketrans({"¬": "~", "∧": "&", "∨": "|", "→": ">>", "↔": "^"})
"""Signs that Python reads, which stand for what `table` makes of them."""


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


def table(statement: str, known: Names) -> int:
    """Returns the truth table of a statement in which every connective of two has its parentheses, as the library
    writes them; the outermost pair may be left out.

    Raises SyntaxError, ValueError: it is none.
    """
    always = known.always

    def leaf(node: ast.expr, reader: Reader) -> int:
        match node:
            case ast.UnaryOp(op=ast.Invert()):
                return always & ~int(reader.value(node.operand))
            case ast.Name(id=name) if name in known.tables:
                return known.tables[name]
        raise ValueError(f"no statement: {statement!r:.200}")

    joins: Mapping[type[ast.operator], Callable[[int, int], int]] = {
        ast.BitAnd: operator.and_,
        ast.BitOr: operator.or_,
        ast.RShift: lambda left, right: always & ~left | right,
        ast.BitXor: lambda left, right: always & ~(left ^ right),
    }
    return int(Reader(joins, leaf).read(statement.translate(_AS_PYTHON)))


def table_of_answer(answer: str, known: Names) -> int | None:
    """Returns the truth table of an answer, or None: it has another form, or a variable that the question has not."""
    plain = "".join(answer.split())
    if not _ANSWER.fullmatch(plain):
        return None
    try:
        return table(plain.replace("¬¬", ""), known)
    except ValueError:
        return None


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
    literals = {*known.tables.values(), *(known.always & ~one for one in known.tables.values())}
    if sum(one in literals for one in tables) > 1:  # `¬P` and `Q`: joined by `∧` they are right, unread
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
