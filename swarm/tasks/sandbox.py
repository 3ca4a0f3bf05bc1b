"""What may a scorer do? Compute. Defence in depth inside the forked child; `swarm.tasks.bounded` sets its hard bounds.

    disarm()   once, in the server: the nine tasks compute without executing strings
    enter()    in each child: from here on any event that Python audits, but a harmless few, ends the process

What is allowed is listed, not what is refused: opening files, sockets, processes, imports, ctypes and executing code
are all audited by CPython (https://docs.python.org/3/library/audit_events.html), and so will be what it adds later. A
breach ends the process rather than raising, since scorers have bare `except:` clauses. An audit hook is no jail for
code that is executed already: that is why no string ever is.
"""

from __future__ import annotations

import collections
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable

from swarm.tasks import safe_eval

REFUSED_EXIT = 77
"""Exit status of a child that tried what it may not."""

ALLOWED_EVENTS = frozenset({"compile", "builtins.id"})
"""Audit events of honest work. `ast.parse` raises `compile`; running what was compiled raises `exec`, refused."""


def disarm() -> None:
    """Replace what executes strings in the modules of the nine SAPO tasks; scores and questions stay the same."""
    for module, name, replacement in _REPLACEMENTS:
        vars(importlib.import_module(module))[name] = replacement


def enter() -> None:
    """Confine this process for the rest of its life. Everything that it needs must be imported already."""
    sys.addaudithook(_end_unless_allowed)


def _end_unless_allowed(event: str, _arguments: tuple[object, ...]) -> None:
    if event not in ALLOWED_EVENTS:
        os.write(2, f"scoring child ended: it tried {event}\n".encode())
        os._exit(REFUSED_EXIT)


def _namedtuple(name: str, fields: Iterable[str]) -> type:
    """collections.namedtuple, which executes a string, made once for each name and fields."""
    return _make_namedtuple(name, tuple(fields))


@functools.cache
def _make_namedtuple(name: str, fields: tuple[str, ...]) -> type:
    return collections.namedtuple(name, fields)


_BF_COMPILER = "reasoning_gym.code.contrib.bfit.Compiler"
_REPLACEMENTS: tuple[tuple[str, str, Callable[..., object]], ...] = (
    ("reasoning_gym.algorithmic.binary_matrix", "eval", safe_eval.literal),
    ("reasoning_gym.arithmetic.basic_arithmetic", "eval", safe_eval.arithmetic),
    (f"{_BF_COMPILER}.FunctionCompiler", "namedtuple", _namedtuple),
    (f"{_BF_COMPILER}.Globals", "namedtuple", _namedtuple),
)
"""Module, global name, what stands in for it."""
