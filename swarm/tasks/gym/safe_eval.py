"""Restricted replacements for `eval` in reasoning-gym: Python literals and arithmetic.

`literal` replaces it where an *answer* is read (binary_matrix, ...), `arithmetic` where a *question* is computed
(basic_arithmetic, ...), so that a scoring child never has to execute a string.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

literal = ast.literal_eval
"""Python literals only; raises ValueError or SyntaxError for anything else."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def arithmetic(expression: str) -> Any:
    """Returns the value of integers joined by + - * // / << >> and parentheses, with signs.

    Raises:
        SyntaxError, ZeroDivisionError: as `eval` would.
        ValueError: anything else stands in the expression.
    """
    return _value(ast.parse(expression, mode="eval").body)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand)
        case ast.UnaryOp(op=ast.UAdd()):
            return _value(node.operand)
        case ast.BinOp() if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError(f"expected integers joined by + - * // / << >>, got {ast.dump(node)}")
