"""What counts as right in the strict profiles: reward 1 for it, and 0 for every other answer.

reasoning-gym pays for some answers that are not right: a wrong fraction or weekday earns 0.05 or 0.1, a sum that holds
the key as a part of it the share that it has, a decimal number may be off by one unit of its operands' last place. So
the mean reward rises without any right answer, and that a mean reward of 0.1 is knowledge cannot be told. Here a reward
is a right answer, and the mean reward is the share of them (pass@1).
"""

from __future__ import annotations

from decimal import Decimal

from swarm.types import Question

_CONNECTIVES = "\u2227\u2228\u2192\u2194"
"""And, or, implies, if and only if."""


def is_right(question: Question, answer: str, raw: float) -> bool:
    """Whether an answer is right, given reasoning-gym's own score of it.

    decimal_arithmetic    the key's number exactly, in any notation
    propositional_logic   one connective at most, as in the conclusions that the task itself derives: a disjunction of
                          all variables follows from nearly any premises
    all others            the full score
    """
    if raw < 1:
        return False
    task = question.known_origin().task
    if task == "decimal_arithmetic":
        return question.answer is not None and Decimal(answer) == Decimal(question.answer)
    if task == "propositional_logic":
        return sum(answer.count(sign) for sign in _CONNECTIVES) <= 1
    return True
