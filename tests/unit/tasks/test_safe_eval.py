"""What stands in for eval: the same values, none of its powers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.tasks.gym import safe_eval

NUMBERS = st.integers(0, 10**6).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", " * ", " // "]), inner).map("".join),
        inner.map("({})".format),
        inner.map("-({})".format),
    ),
    max_leaves=8,
)


def value(evaluate: object, expression: str) -> object:
    try:
        return evaluate(expression)  # type: ignore[operator]
    except ZeroDivisionError:
        return ZeroDivisionError


@given(EXPRESSIONS)
def test_arithmetic_has_the_value_that_eval_has(expression: str) -> None:
    assert value(safe_eval.arithmetic, expression) == value(eval, expression)


@pytest.mark.parametrize("expression", ["(0x1F + 3) << 2", "1/8", "-(0xFFFF >> 3) * 2", "7 / 2"])
def test_arithmetic_shifts_and_divides(expression: str) -> None:
    assert safe_eval.arithmetic(expression) == eval(expression)


@pytest.mark.parametrize("code", ["__import__('os')", "a", "2 ** 9", "[1][0]", "(lambda: 1)()", "1 if 1 else 2", "1.5"])
def test_arithmetic_knows_nothing_else(code: str) -> None:
    with pytest.raises(ValueError, match="expected integers"):
        safe_eval.arithmetic(code)


@pytest.mark.parametrize("code", ["__import__('os').getcwd()", "[x for x in (1, 2)]", "open('f', 'w')", "9 ** 9 ** 9"])
def test_literals_know_no_calls(code: str) -> None:
    with pytest.raises(ValueError, match="malformed node"):
        safe_eval.literal(code)
