"""Stands in for the places where sympy executes text: expressions are read, not evaluated as Python.

`parse` reads numbers, names, + - * / ** and elementary functions, which is what questions are written in and right
answers need. The rest of what sympy.parse_expr takes (attributes, calls of anything, factorials, lambdas) is an error,
and so is an integral left as it is, which would be right by itself.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_FUNCTIONS = frozenset(
    (
        *("exp", "log", "ln", "sqrt", "Abs", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot"),
        *("sinh", "cosh", "tanh", "coth", "asinh", "acosh", "atanh", "erf", "erfi", "Si", "Ci", "Ei", "li"),
    )
)
_CONSTANTS = frozenset({"pi", "E", "I"})
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def parse(text: str, local_dict: Mapping[str, Any] | None = None, *_how: object, **_options: object) -> Any:
    """Parses an expression in place of sympy.parse_expr. Raises ValueError or SyntaxError: it is no such expression."""
    text = text.strip()
    return _Reader(text, local_dict or {}).value(ast.parse(text, mode="eval").body)


class _Reader:
    """Reads one text as an expression, without evaluating Python."""

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        import sympy  # half a second: who asks such a dataset has it already

        self._text, self._names, self._sympy = text, names, sympy

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int(number)):
                return self._sympy.Integer(number)
            case ast.Constant(value=float()):
                return self._sympy.Float(ast.get_source_segment(self._text, node))
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                return self.value(node.operand)
            case ast.BinOp() if type(node.op) in _BINARY:
                return _BINARY[type(node.op)](self.value(node.left), self.value(node.right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return getattr(self._sympy, name)(self.value(argument))
        raise ValueError(f"expected numbers, names, + - * / ** and elementary functions, got {ast.dump(node):.200}")

    def _named(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        if name in _CONSTANTS:
            return getattr(self._sympy, name)
        if hasattr(self._sympy, name):
            raise ValueError(f"{name} is one of sympy's own names")
        return self._sympy.Symbol(name)


def lambdify(variable: Any, expression: Any) -> Callable[[Any], Any]:
    """Stands in for sympy's lambdify, which writes code and executes it: gives the values of a polynomial.

    That is what infinite sums are evaluated by. Raises sympy's PolynomialError for any other expression.
    """
    import sympy

    coefficients = [int(each) for each in sympy.Poly(expression, variable).all_coeffs()]

    def value(at: Any) -> Any:
        found = 0
        for each in coefficients:
            found = found * at + each
        return found

    return value


Monomial = tuple[int, ...]
MONOMIALS: dict[str, Callable[..., Monomial | None]] = {
    "mul": lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
    "pow": lambda a, k: tuple(x * k for x in a),
    "mulpow": lambda a, b, k: tuple(x + y * k for x, y in zip(a, b, strict=True)),
    "ldiv": lambda a, b: tuple(x - y for x, y in zip(a, b, strict=True)),
    "div": lambda a, b: tuple(x - y for x, y in zip(a, b, strict=True)) if all(map(operator.ge, a, b)) else None,
    "lcm": lambda a, b: tuple(map(max, a, b)),
    "gcd": lambda a, b: tuple(map(min, a, b)),
}
"""Arithmetic of exponents, which sympy.polys.monomials.MonomialOps writes and executes as code for each length."""
