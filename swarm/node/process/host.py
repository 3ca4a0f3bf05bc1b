"""Tells which process on which machine this is, and whether another one of this machine still runs.

Commands that only look import this: no anyio here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from swarm.node.base.context import ProcessIdentity


class ThisMachine(NamedTuple):
    """This machine, as swarm.records.liveness.Machine."""

    host: str
    is_running: Callable[[int, float], bool]


def this_machine() -> ThisMachine:
    """Returns this machine, for those who only look whether a node of it runs."""
    return ThisMachine(host_identity(), is_running)


def this_process() -> ProcessIdentity:
    """Returns how a node of this process identifies itself; every call makes another incarnation."""
    import secrets  # here, with what follows, for commands that only look
    import uuid

    from swarm.node.base.context import ProcessIdentity

    pid = os.getpid()
    return ProcessIdentity(
        host=host_identity(),
        pid=pid,
        started_at=process_started_at(pid),
        incarnation=uuid.uuid4().hex,
        secret=secrets.token_bytes(16),
        is_running=is_running,
    )


def host_identity() -> str:
    """Name of this machine, boot and process namespace: equal only where process ids mean the same processes."""
    return "/".join([_host_name(), _read("/proc/sys/kernel/random/boot_id"), _link("/proc/self/ns/pid")])


def _host_name() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket  # here: it takes milliseconds

    return socket.gethostname()


def process_started_at(pid: int) -> float:
    """Clock ticks from boot to the start of a process, 0.0 where the system does not tell or it is gone."""
    return _state_and_start(pid)[1]


def is_running(pid: int, started_at: float) -> bool:
    """Tells whether the process with this id is still the one that started then."""
    if sys.platform == "win32":  # where no node runs, and os.kill(pid, 0) sends Ctrl-C
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the number comes out of a file
        return False
    except PermissionError:
        pass  # somebody else's, but there
    state, started = _state_and_start(pid)
    return started == started_at and state != "Z"


def _state_and_start(pid: int) -> tuple[str, float]:
    after_name = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (after_name[0], float(after_name[19])) if len(after_name) > 19 else ("", 0.0)


def _read(file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except OSError:
        return ""


def _link(file: str) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""
