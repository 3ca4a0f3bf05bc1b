"""What stands in for sympy's parser and its written code: the same values, none of their powers."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.polys.monomials import MonomialOps

from swarm.tasks.gym import safe_sympy

LEAVES = st.one_of(st.integers(0, 99).map(str), st.sampled_from(["x", "C", "y", "pi", "E", "0.1", "2.50", "1e3"]))
EXPRESSIONS = st.recursive(
    LEAVES,
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


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS)
def test_a_formula_is_what_sympy_reads(text: str) -> None:
    assert safe_sympy.parse(f" {text} ", NAMES) == sympy.parse_expr(text, local_dict=NAMES)


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os')", "exec('1')", "x.subs(x, 1)", "Integral(x, x)", "factorial(3)", "lambda x: x", "S"),
        *("[1][0]", "True", "'x'", "sin(x, evaluate=False)", "sin(*x)", "1 if x else 2", "x == x", "2j", "3!", ""),
    ],
)
def test_nothing_else_is_read(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        safe_sympy.parse(text, NAMES)


@settings(deadline=None)
@given(EXPONENTS, EXPONENTS, st.integers(0, 5), st.sampled_from([*safe_sympy.MONOMIALS]))
def test_exponents_are_what_the_code_makes_of_them_that_sympy_writes(
    one: tuple[int, ...], other: tuple[int, ...], power: int, name: str
) -> None:
    arguments: tuple[Any, ...] = {"pow": (one, power), "mulpow": (one, other, power)}.get(name, (one, other))
    assert safe_sympy.MONOMIALS[name](*arguments) == getattr(MonomialOps(3), name)()(*arguments)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5), st.integers(-100, 100))
def test_a_polynomial_of_an_infinite_sum_has_the_values_that_executed_code_would_give(
    coefficients: list[int], at: int
) -> None:
    n = sympy.Symbol("n")
    polynomial = sympy.Poly(coefficients, n).as_expr()
    assert safe_sympy.lambdify(n, polynomial)(at) == polynomial.subs(n, at)
    with pytest.raises(sympy.PolynomialError):
        safe_sympy.lambdify(n, sympy.sin(n))
