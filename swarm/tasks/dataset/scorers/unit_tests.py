"""`tests`: the answer is Python code, and passes the tests of its row; options entry_point, prefix, setup, partial.

    entry_point    column: the name of the function that the tests' `check(candidate)` is called with (HumanEval)
    prefix         column: code that stands before the answer's, such as the imports of a prompt that it goes on with
    setup          column: code that stands before the tests
    partial        the reward is the share of assertions that hold, and not 1 for all

    nursery ── candidate: serve runs the answer, then the calls that come ──▶ plain values
    server  ── judge: verdict runs the tests, where no answer's code is, and counts the assertions that hold

The column holds code, or a list of statements (MBPP). Names that the tests use and define nowhere are functions of the
answer's.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import io
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from swarm.tasks.bounded import Emit
from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow, plain_values
from swarm.tasks.family import Receive, Trial


def score(_row: ScorerRow, _answer: str) -> float:
    """Never: answers are executed by `trial` alone. Raises RuntimeError."""
    raise RuntimeError("an answer that is code is tried by swarm.tasks.trial alone")


def check(row: ScorerRow) -> None:
    """Raises ValueError where the tests cannot be run, or test nothing."""
    verify(tests_of(row))


def trial(row: ScorerRow, answer: str) -> Trial:
    source = "\n".join(filter(None, [_column(row, "prefix"), code_of(answer)]))
    return Trial(source, functools.partial(verdict, tests_of(row)))


def tests_of(row: ScorerRow) -> Tests:
    """Returns the row's tests. Raises ValueError."""
    source = "\n".join(filter(None, [_column(row, "setup"), _code(row.truth)]))
    return Tests(source, _column(row, "entry_point"), row.options.get("partial", False))


def _column(row: ScorerRow, option: str) -> str:
    return _code(row.columns[row.options[option]]) if option in row.options else ""


def _code(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise ValueError(f"expected code as text, or a list of statements, got {value!r:.80}")
    return value


TESTS = ScorerFunctions(score, check)


# ── the judge ───────────────────────────────────────────────────────────────────────────────────────────────────────
CHECK = "check"
_ENDS_OF_ITERATION = (StopIteration, StopAsyncIteration)
_PASSED, _FAILED, _ERRORS = "_swarm_passed", "_swarm_failed", "_swarm_errors"


class Tests(msgspec.Struct, frozen=True):
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
        send(plain_values.pack((name, list(arguments), named)))
        kind, outcome = plain_values.unpack(receive())
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


# ── the candidate ───────────────────────────────────────────────────────────────────────────────────────────────────
_FENCE = "```"


def code_of(answer: str) -> str:
    """Returns an answer without the fence around it, if it has one."""
    lines = answer.strip().splitlines()
    if len(lines) > 1 and lines[0].startswith(_FENCE) and lines[-1].strip() == _FENCE:
        return "\n".join(lines[1:-1])
    return answer


def serve(receive: Callable[[], bytes], send: Emit) -> None:
    """Execute the code that the first message is, then call its functions as asked."""
    source = receive().decode()
    sys.stdout = io.StringIO()
    random.seed(0)
    found: dict[str, Any] = {"__name__": "answer"}
    exec(compile(source, "<answer>", "exec"), found)  # in a child behind all bars alone: see swarm.tasks.trial
    while True:
        name, arguments, named = plain_values.unpack(receive())
        send(_outcome(found, name, arguments, named))


def _outcome(found: dict[str, Any], name: str, arguments: list[Any], named: dict[str, Any]) -> bytes:
    try:
        if name not in found:
            raise NameError(name)
        return plain_values.pack(("returned", found[name](*arguments, **named)))
    except BaseException as error:  # noqa: BLE001 - the boundary: code of anybody's
        return plain_values.pack(("raised", type(error).__name__))
