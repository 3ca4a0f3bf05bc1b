"""Decides what counts as right in the strict profiles: reward 1 for it, and 0 for every other answer.

reasoning-gym pays for some answers that are not right: a wrong fraction or weekday earns 0.05 or 0.1, a sum that holds
the key as a part of it the share that it has, a decimal number may be off by one unit of its operands' last place. So
the mean reward rises without any right answer, and that a mean reward of 0.1 is knowledge cannot be told. Here a reward
is a right answer, and the mean reward is the share of them (pass@1).

    decimal_arithmetic        the key's number exactly, in any notation; the key rounds halves up, as the question asks
    fraction_simplification   one fraction in lowest terms and nothing else, or the whole number that it is
    propositional_logic       what follows from the premises, and not from nothing, with one connective at most, as the
                              conclusions that the task derives itself have: a disjunction of all variables follows
                              from nearly any premises
    all others                the key, as the task writes it

What stays: a premise that is copied follows from the premises; of 0.3 % of the questions of propositional_logic nothing
follows that says anything; in arc_1d two rules may explain one example.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

_LITERAL = r"\s*(?:¬\s*)*[A-Z]\s*"
_BINARY = rf"{_LITERAL}[∧∨→↔]{_LITERAL}"
_VARIABLE = re.compile(r"\s*[A-Z]\s*")
_FORMS = {
    "propositional_logic": re.compile(rf"{_LITERAL}|{_BINARY}|\s*(?:¬\s*)*\({_BINARY}\)\s*"),
    "fraction_simplification": re.compile(
        r"\s*(?:\d+|\$?\s*(?:\d+\s*/\s*\d+|\\d?frac\s*{\s*\d+\s*}\s*{\s*\d+\s*})\s*\$?)\s*", re.ASCII
    ),
}
"""Task -> the form of an answer that is looked at: what else its own scorer takes is no answer here."""
TRIVIAL = 0.25
"""What propositional_logic pays for a conclusion that follows and is a variable, or always true."""


@contextmanager
def rounding() -> Iterator[None]:
    """Rounds halves up while questions are made, as decimal_arithmetic asks."""
    with decimal.localcontext(rounding=decimal.ROUND_HALF_UP):
        yield


def has_form(task: str, answer: str) -> bool:
    """Tells whether an answer can be right at all, before any work is done on it."""
    form = _FORMS.get(task)
    return form is None or form.fullmatch(answer) is not None


def is_right(task: str, key: str | None, answer: str, raw: float) -> bool:
    """Tells whether an answer of that form is right, given reasoning-gym's own score of it."""
    if task == "propositional_logic" and _VARIABLE.fullmatch(answer):
        return raw >= TRIVIAL
    if task == "fraction_simplification" and "/" not in answer and "frac" not in answer:
        return f"{int(answer)}/1" == key
    if task == "decimal_arithmetic":
        return raw >= 1 and key is not None and Decimal(answer) == Decimal(key)
    return raw >= 1
