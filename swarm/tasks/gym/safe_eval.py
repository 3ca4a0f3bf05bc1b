"""Stands in for the places where reasoning-gym and sympy execute text: expressions are read, not evaluated as Python.

    literal       an answer      Python literals: binary_matrix, ...
    arithmetic    a question     whole numbers joined by + - * // / << >>: basic_arithmetic, ...
    fraction      an answer      whole numbers joined by + - * /, exactly: countdown, puzzle24
    expression    both           sympy's parse_expr: numbers, names, + - * / ** and elementary functions

What questions are written in and right answers need is read, so that a scoring child never has to execute a string. The
rest of what sympy.parse_expr takes (attributes, calls of anything, factorials, lambdas) is an error, and so is an
integral left as it is, which would be right by itself. All raise SyntaxError or ValueError for anything else.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

literal = ast.literal_eval
Leaf = Callable[[ast.expr, "Reader"], Any]

_FUNCTIONS = frozenset(
    (
        *("exp", "log", "ln", "sqrt", "Abs", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot"),
        *("sinh", "cosh", "tanh", "coth", "asinh", "acosh", "atanh", "erf", "erfi", "Si", "Ci", "Ei", "li"),
    )
)
_CONSTANTS = frozenset({"pi", "E", "I"})
_FOUR: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_OF_QUESTIONS = {**_FOUR, ast.FloorDiv: operator.floordiv, ast.LShift: operator.lshift, ast.RShift: operator.rshift}


class Reader:
    """Reads expressions of some operators; a leaf is what is none of them."""

    def __init__(self, operators: Mapping[type[ast.operator], Callable[[Any, Any], Any]], leaf: Leaf) -> None:
        self._operators, self._leaf = operators, leaf

    def read(self, text: str) -> Any:
        """Returns the value of a text. Raises SyntaxError, ValueError, ZeroDivisionError."""
        return self.value(ast.parse(text, mode="eval").body)

    def value(self, node: ast.expr) -> Any:
        """Returns the value of a part of it."""
        match node:
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                return self.value(node.operand)
            case ast.BinOp() if type(node.op) in self._operators:
                return self._operators[type(node.op)](self.value(node.left), self.value(node.right))
        return self._leaf(node, self)


def _refused(node: ast.expr) -> ValueError:
    return ValueError(f"expected numbers joined by operators, got {ast.dump(node):.200}")


def _whole(node: ast.expr, _reader: Reader) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
    raise _refused(node)


arithmetic = Reader(_OF_QUESTIONS, _whole).read
fraction = Reader(_FOUR, lambda node, reader: Fraction(_whole(node, reader))).read


def expression(text: str, local_dict: Mapping[str, Any] | None = None, *_how: object, **_options: object) -> Any:
    """Parses an expression in place of sympy.parse_expr."""
    import sympy  # half a second: who asks such a dataset has it already

    text, names = text.strip(), local_dict or {}

    def leaf(node: ast.expr, reader: Reader) -> Any:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int(number)):
                return sympy.Integer(number)
            case ast.Constant(value=float()):
                return sympy.Float(ast.get_source_segment(text, node))
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name) if name in _CONSTANTS:
                return getattr(sympy, name)
            case ast.Name(id=name) if not hasattr(sympy, name):  # none of sympy's own names
                return sympy.Symbol(name)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return getattr(sympy, name)(reader.value(argument))
        raise _refused(node)

    return Reader({**_FOUR, ast.Pow: operator.pow}, leaf).read(text)


def lambdify(variable: Any, polynomial: Any) -> Callable[[Any], Any]:
    """Stands in for sympy's lambdify, which writes code and executes it: gives the values of a polynomial.

    That is what infinite sums are evaluated by. Raises sympy's PolynomialError for any other expression.
    """
    import sympy

    coefficients = [int(each) for each in sympy.Poly(polynomial, variable).all_coeffs()]

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
