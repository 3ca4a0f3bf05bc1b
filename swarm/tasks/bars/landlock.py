"""Landlock: this process and all that it forks open, make, execute and connect to nothing from here on.

What is open already stays usable. The kernel's versions ("ABI", https://docs.kernel.org/userspace-api/landlock.html)
each add rights that can be taken away; all that the running one knows are, and no path and no port is excepted.
`stat` and its like are none of them: they are closed by seccomp.
"""

from __future__ import annotations

import ctypes
import os

from swarm.tasks.bars.calls import NotHereError, call

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
"""The same on every architecture that Python runs on."""
_ASK_VERSION = 1

_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))
"""ABI -> rights on files: execute, write, read, list, remove, make; move to another folder; truncate; device ioctl."""
_PORTS = ((4, 2),)
"""TCP bind and connect."""
_SCOPES = ((6, 2),)
"""Abstract sockets of, and signals to, processes outside."""


class _Rules(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


def put_up() -> str:
    """Restrict this process for good, which must have no other thread and no new privileges; what it has now.

    Raises:
        NotHereError, OSError: the kernel has no Landlock, or it is switched off.
    """
    abi = version()
    rules = _Rules(*(_bits(table, abi) for table in (_FILES, _PORTS, _SCOPES)))
    known = 8 * (1 + (abi >= _PORTS[0][0]) + (abi >= _SCOPES[0][0]))  # an older kernel refuses fields it does not know
    ruleset = call(_CREATE_RULESET, ctypes.byref(rules), known, 0)
    try:
        call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return f"ABI {abi}"


def version() -> int:
    """Returns the kernel's ABI. Raises as `put_up`."""
    try:
        return call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError as error:
        raise NotHereError(f"needs a kernel of 5.13 or newer that has landlock among its lsm=; got {error}") from None


def _bits(table: tuple[tuple[int, int], ...], abi: int) -> int:
    """Returns all rights of one kind that this ABI knows."""
    return (1 << max((count for since, count in table if abi >= since), default=0)) - 1
