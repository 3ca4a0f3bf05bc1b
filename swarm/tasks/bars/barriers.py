"""Puts up the bars of a scoring server, and says which are up."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence

import msgspec

from swarm.tasks.bars import landlock, seccomp
from swarm.tasks.bars.calls import NotHereError, call, control, machine

_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_VERSION = 0x20080522


class Bar(msgspec.Struct, frozen=True):
    """One bar."""

    name: str
    up: bool
    detail: str
    """What it has here; where it is not up, why not."""


class Bars:
    """The bars of one server."""

    def __init__(
        self,
        bars: Sequence[Bar] = (),
        filter_: Callable[[], int] | None = None,
        reading: Callable[[], int] | None = None,
    ) -> None:
        self.bars = tuple(bars)
        self._filter = filter_
        self._reading = reading

    @property
    def up(self) -> tuple[str, ...]:
        """Returns names of those that are up."""
        return tuple(bar.name for bar in self.bars if bar.up)

    def close_calls(self, *, reading: bool = False) -> None:
        """Closes all calls but those of computing, in a child whose limits are all set.

        Raises OSError where the filter that the server tried fails, and nothing is to be scored then.

        Args:
            reading: it may read from what is open, too.
        """
        filter_ = self._reading if reading else self._filter
        if filter_ is not None:
            filter_()


def put_up(names: Sequence[str] = ("privileges", "capabilities", "landlock", "seccomp")) -> Bars:
    """Put up the named bars of this process for good; it must have one thread, and everything open that it needs.

    `privileges` is the condition of landlock and seccomp for all but root.
    """
    steps: dict[str, Callable[[], str]] = {
        "privileges": _no_new_privileges,
        "capabilities": _no_capabilities,
        "landlock": landlock.put_up,
        "seccomp": _try_filter,
    }
    bars = [_attempt(name, step) for name, step in steps.items() if name in names]
    up = any(bar.name == "seccomp" and bar.up for bar in bars)
    return Bars(bars, seccomp.filter_here(), seccomp.filter_here(seccomp.READING)) if up else Bars(bars)


def _attempt(name: str, step: Callable[[], str]) -> Bar:
    try:
        return Bar(name, True, step())
    except (NotHereError, OSError) as error:
        return Bar(name, False, str(error))


def _no_new_privileges() -> str:
    """Programs with the set-user-id bit run as anybody's."""
    control(_NO_NEW_PRIVILEGES, 1)
    return "none from executed files"


def _no_capabilities() -> str:
    """Takes root's capabilities from a node: no mounting, tracing, changing of users, of the clock and of others'
    priorities."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    call(machine().numbers["capset"], header, (ctypes.c_uint32 * 6)())
    return "none left"


def _try_filter() -> str:
    """Tries the filter in a fork, as the server itself has to open pipes and fork."""
    filter_ = seccomp.filter_here()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            filter_()
            _exit_well_if_refused()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise NotHereError("needs a kernel that filters system calls for this process; the filter did not hold here")
    return f"{len(seccomp.ALLOWED)} system calls are left"


def _exit_well_if_refused() -> None:
    try:
        os.stat("/")
    except PermissionError:
        os._exit(0)
