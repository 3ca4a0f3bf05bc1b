"""Audit hook of a scoring child: ends the process at any audited event not on the allow-list.

From `enter` on any event that Python audits, but a harmless few, ends the process. What is allowed is listed, not what
is refused: opening files, sockets, processes, imports, ctypes and executing code are all audited by CPython
(https://docs.python.org/3/library/audit_events.html), and so will be what it adds later. A breach ends the process
rather than raising, since scorers have bare `except:` clauses; it ends whatever has become of stderr and of the os
module. An audit hook is no jail for code that is executed already: that is why a family's `prepare` takes away whatever
executes a string, and swarm.tasks.bars what the kernel can refuse.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

REFUSED_EXIT = 77
"""Exit status of a child that tried what it may not."""

ALLOWED_EVENTS = frozenset({"compile", "builtins.id"})
"""Audit events of honest work. `ast.parse` raises `compile`; running what was compiled raises `exec`, refused."""


CODE_EVENTS = frozenset(
    {"exec", "object.__getattr__", "object.__setattr__", "object.__delattr__", "sys._getframe", "code.__new__"}
)
"""Of a child that executes what it is given, on top: plain Python, named tuples and dataclasses raise them."""


def enter(also: frozenset[str] = frozenset()) -> None:
    """Confine this process for the rest of its life. Everything that it needs must be imported already.

    Args:
        also: events that are allowed on top.
    """
    sys.addaudithook(_hook(ALLOWED_EVENTS | also, REFUSED_EXIT, select.select, os.write, os._exit))


def _hook(
    allowed: frozenset[str],
    status: int,
    select_: Callable[..., tuple[object, ...]],
    write: Callable[[int, bytes], int],
    end: Callable[[int], object],
) -> Callable[[str, tuple[object, ...]], None]:
    """The hook, which looks nothing up in a module: code in this process can change what lies there."""
    refused = PermissionError

    def end_unless_allowed(event: str, _arguments: tuple[object, ...]) -> None:
        if event not in allowed:
            try:
                if is_ready():
                    write(2, f"scoring child ended: it tried {event:.200}\n".encode(errors="replace"))
            finally:
                end(status)

    def is_ready() -> bool:
        """A full pipe would block, but for that of swarm.tasks.bounded; where calls are barred nobody can look."""
        try:
            return bool(select_((), (2,), (), 0)[1])
        except refused:
            return True

    return end_unless_allowed
