"""A task's Python file: read, known by its SHA-256, imported."""

from __future__ import annotations

import ast
import hashlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from swarm.errors import ConfigError
from swarm.tasks.conversation import Conversing
from swarm.tasks.definitions import malformed, refuse_other
from swarm.types import MOST_TURNS

BYTES_LIMIT = 2**20
FUNCTIONS = ("draw", "score")
REPLY, TURNS, READS = "reply", "turns", "reads"
"""Names of a file that converses: a function, how many turns of the model there are at most, and what it reads of
each."""


def read(name: str, path: Path) -> bytes:
    """Returns the file. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            text = file.read(BYTES_LIMIT + 1)
    except OSError as error:
        raise malformed(name, f"cannot read {path}: {error.strerror}; `swarm task new` writes such a file") from None
    if len(text) > BYTES_LIMIT:
        raise malformed(name, f"{path} has more than {BYTES_LIMIT} bytes")
    return text


def digest_of(text: bytes) -> str:
    """Returns SHA-256 of the file's bytes."""
    return hashlib.sha256(text).hexdigest()


class LoadedSource(NamedTuple):
    """Holds what a task's file defines."""

    functions: dict[str, Callable[..., Any]]
    conversing: Conversing | None


def load(name: str, path: Path, digest: str) -> LoadedSource:
    """Run the very bytes that have this digest, and return its functions. Raises ConfigError."""
    text = read(name, path)
    refuse_other(name, str(path), digest, digest_of(text))
    module = ModuleType(f"swarm_task_{digest[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and pickles look their module up
    try:
        exec(compile(text, str(path), "exec"), vars(module))  # the user's own file, at the digest of the user's own run
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: somebody's file may raise anything
        raise malformed(name, f"{path} cannot be imported: {where(error, path)}") from None
    converses = hasattr(module, REPLY)
    functions = (*FUNCTIONS, REPLY) if converses else FUNCTIONS
    for function in functions:
        if not callable(getattr(module, function, None)):
            raise malformed(name, f"{path} has no function {function}; see docs/tasks.md, or `swarm task new`")
    how = Conversing(getattr(module, TURNS, 0), getattr(module, READS, "answer")) if converses else None
    if how and not how.possible:
        raise malformed(
            name,
            f"{path}: a file with {REPLY} has {TURNS}, 2 to {MOST_TURNS}, and {READS}, answer or text, or none; "
            f"got {how.turns!r:.40} and {how.reads!r:.40}",
        )
    return LoadedSource({function: getattr(module, function) for function in functions}, how)


def turns_of(path: Path) -> int:
    """Returns the turns that a file says it has, at most, without importing it; 1 where it cannot be told."""
    try:
        body = ast.parse(read("", path)).body
    except (ConfigError, SyntaxError, ValueError):  # said where the task is asked
        return 1
    said: list[Any] = [
        node.value.value
        for node in body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and any(isinstance(target, ast.Name) and target.id == TURNS for target in node.targets)
    ]
    converses = any(isinstance(node, ast.FunctionDef) and node.name == REPLY for node in body)
    return int(said[-1]) if converses and said and Conversing(said[-1]).possible else 1


def where(error: BaseException, path: Path) -> str:
    """Returns in words what was raised, and in which line of the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    said = f"{type(error).__name__}: {error}"
    return f"line {line}: {said:.300}" if line else f"{said:.300}"
