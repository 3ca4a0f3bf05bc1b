"""What stands in for eval, and for sympy's parser and written code: the same values, none of their powers."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.polys.monomials import MonomialOps

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
    with pytest.raises(ValueError):  # noqa: PT011
        safe_eval.arithmetic(code)


@pytest.mark.parametrize("code", ["__import__('os').getcwd()", "[x for x in (1, 2)]", "open('f', 'w')", "9 ** 9 ** 9"])
def test_literals_know_no_calls(code: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        safe_eval.literal(code)


# ── sympy's ─────────────────────────────────────────────────────────────────────────────────────────────────────────
WORDS = ["x", "C", "y", "pi", "E", "0.1", "2.50", "1e3"]
FORMULA_LEAVES = st.one_of(st.integers(0, 99).map(str), st.sampled_from(WORDS))
FORMULAS = st.recursive(
    FORMULA_LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", "*", " / "]), inner).map("".join),
        inner.map("({})**2".format),
        inner.map("-({})".format),
        st.tuples(st.sampled_from(["sin", "exp", "log", "sqrt"]), inner).map("{0[0]}({0[1]})".format),
    ),
    max_leaves=5,
)
NAMES = {"x": sympy.Symbol("x"), "C": sympy.Symbol("C")}
EXPONENTS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=40)
@given(FORMULAS)
def test_a_formula_is_what_sympy_reads(text: str) -> None:
    assert safe_eval.expression(f" {text} ", NAMES) == sympy.parse_expr(text, local_dict=NAMES)


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os')", "exec('1')", "x.subs(x, 1)", "Integral(x, x)", "factorial(3)", "lambda x: x", "S"),
        *("[1][0]", "True", "'x'", "sin(x, evaluate=False)", "sin(*x)", "1 if x else 2", "x == x", "2j", "3!", ""),
    ],
)
def test_nothing_else_is_read(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        safe_eval.expression(text, NAMES)


@given(EXPONENTS, EXPONENTS, st.integers(0, 5), st.sampled_from([*safe_eval.MONOMIALS]))
def test_exponents_are_what_the_code_makes_of_them_that_sympy_writes(
    one: tuple[int, ...], other: tuple[int, ...], power: int, name: str
) -> None:
    arguments: tuple[Any, ...] = {"pow": (one, power), "mulpow": (one, other, power)}.get(name, (one, other))
    assert safe_eval.MONOMIALS[name](*arguments) == getattr(MonomialOps(3), name)()(*arguments)


@settings(max_examples=20)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5), st.integers(-100, 100))
def test_a_polynomial_of_an_infinite_sum_has_the_values_that_executed_code_would_give(
    coefficients: list[int], at: int
) -> None:
    n = sympy.Symbol("n")
    polynomial = sympy.Poly(coefficients, n).as_expr()
    assert safe_eval.lambdify(n, polynomial)(at) == polynomial.subs(n, at)
    with pytest.raises(sympy.PolynomialError):
        safe_eval.lambdify(n, sympy.sin(n))
