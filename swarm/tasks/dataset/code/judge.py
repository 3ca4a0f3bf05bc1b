"""The judge: runs a row's tests against functions of the candidate's, and counts the assertions that hold."""

from __future__ import annotations

import ast
import builtins
import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from swarm.tasks.bounded import Emit
from swarm.tasks.dataset.code import plain
from swarm.tasks.trial import Receive

CHECK = "check"
_ENDS_OF_ITERATION = (StopIteration, StopAsyncIteration)
_PASSED, _FAILED, _ERRORS = "_swarm_passed", "_swarm_failed", "_swarm_errors"


class Tests(msgspec.Struct, frozen=True):
    """Holds the tests that an answer has to pass."""

    source: str
    entry_point: str = ""
    """The function that `check(candidate)` is called with; where it is empty, the source's own statements are all."""
    partial: bool = False
    """The reward is the share of the assertions that hold; 0 where anything else ends the tests."""


def verify(tests: Tests) -> None:
    """See that tests can be run, and test something. Raises ValueError."""
    try:
        tree = ast.parse(tests.source)
        compile(tree, "<tests>", "exec")  # which refuses more, such as a return outside of a function
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the tests are no Python: {error}") from None
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        raise ValueError("the tests assert nothing")
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if tests.entry_point and CHECK not in defined:
        raise ValueError(f"with an entry_point the tests have to define {CHECK}(candidate)")
    if not tests.entry_point and not asked_for(tree):
        raise ValueError("the tests call nothing that an answer could define")


def asked_for(tree: ast.AST) -> set[str]:
    """Returns names that the tests use and define nowhere: the answer's."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    return used - {node.id for node in names if not isinstance(node.ctx, ast.Load)} - set(_bound(tree)) - _KNOWN


NAMES = (
    *("abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc"),
    *("contextlib", "copy", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools"),
    *("hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "random", "re", "statistics"),
    *("string", "struct", "textwrap", "time", "types", "typing", "unicodedata", "zlib"),
)
"""What tests and answers may import: modules that compute, imported before a child is confined."""
MODULES = {name: importlib.import_module(name) for name in NAMES}
_KNOWN = {*dir(builtins), *MODULES}


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]


def verdict(tests: Tests, receive: Receive, send: Emit) -> float:
    """Returns the reward: 1 where all assertions hold, 0 where one does not; or, if partial, the share of those that
    do.

    What ends the tests otherwise leaves unknown how many would have failed: an answer could end them behind the first
    assertion that holds. So it gives 0.
    """
    random.seed(0)
    tree = ast.parse(tests.source)
    held, failed = [0], [0]
    space: dict[str, Any] = {name: _function(name, receive, send) for name in asked_for(tree)}
    space |= {name: module for name, module in MODULES.items() if "." not in name} | {"__name__": "tests"}
    space |= {_PASSED: lambda: _count(held), _FAILED: lambda: _count(failed), _ERRORS: Exception}
    counting = ast.fix_missing_locations(_Counting(tests.partial).visit(tree))
    try:
        exec(compile(counting, "<tests>", "exec"), space)
        if tests.entry_point:
            space[CHECK](_function(tests.entry_point, receive, send))
    except Exception:  # noqa: BLE001 - an assertion that does not hold, or whatever a test raises
        return 0.0
    if tests.partial:
        return held[0] / max(held[0] + failed[0], 1)
    return float(held[0] > 0)


def _count(counter: list[int]) -> None:
    counter[0] += 1


class _Counting(ast.NodeTransformer):
    """Assertions that are counted; of a partial reward, one that fails does not end the tests."""

    def __init__(self, partial: bool) -> None:
        self._partial = partial

    def visit_Assert(self, node: ast.Assert) -> Any:
        body = [node, _call(_PASSED)]
        if not self._partial:
            return body
        handler = ast.ExceptHandler(ast.Name(_ERRORS, ast.Load()), None, [_call(_FAILED)])
        return ast.Try(body, [handler], [], [])


def _call(name: str) -> ast.Expr:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [], []))


def _function(name: str, receive: Receive, send: Emit) -> Callable[..., Any]:
    """Returns a function of the candidate's: arguments and results are copies of plain values."""

    def call(*arguments: Any, **named: Any) -> Any:
        send(plain.pack((name, list(arguments), named)))
        kind, outcome = plain.unpack(receive())
        if kind == "returned":
            return outcome
        raise _raised(outcome)

    return call


def _raised(name: Any) -> Exception:
    """Returns the error that a call raised: of the built-in type of that name, if it is one.

    But for those that end an iteration: `all(map(function, values))` would hold after none of them.
    """
    kind = getattr(builtins, name, None) if isinstance(name, str) else None
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _ENDS_OF_ITERATION):
        try:
            return kind(f"the answer raised {name}")
        except TypeError:  # UnicodeError's kinds, which need more
            pass
    return RuntimeError(f"the answer raised {name!r:.80}")
