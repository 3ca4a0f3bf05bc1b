"""Reads the limits of inotify, counts what is in use of them, and tells which of them ended a watcher."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from swarm.store.health import Inotify

SYSTEM = Path("/proc/sys")
"""inotify(7): fs/inotify has the machine's limits; namespaces(7): user/ has those of this user namespace, a container's
own. Both hold."""
PROCESSES = Path("/proc")
DESCRIPTORS = "ulimit -n 4096 before the node is started"


def measure(system: Path = SYSTEM, processes: Path = PROCESSES) -> Inotify:
    """Measures the limits of inotify and their use; it implements swarm.store.health.Health.inotify."""
    if sys.platform == "win32":
        return Inotify(None, None, None)
    limit = {what: _limit(system, what) for what in ("watches", "instances")}
    queue = _number(system / "fs" / "inotify" / "max_queued_events")
    watches = instances = unseen = 0
    for process in _own_processes(processes):
        try:
            for descriptor in os.listdir(process / "fd"):
                held = _watches(process, descriptor)
                instances += held is not None
                watches += held or 0
        except OSError:
            unseen += process.exists()
    return Inotify(limit["watches"], limit["instances"], queue, watches, instances, unseen)


def cause_and_remedy(error: str, system: Path = SYSTEM) -> tuple[str, str]:
    """Returns what ended a watcher, and what to type; the error itself and "" where no limit did. Blocking.

    The kernel says EMFILE both for a process without a free descriptor and for a user without a free instance.
    """
    if f"os error {errno.EMFILE}" in error:
        if not _descriptor_is_free():
            return "this process has no file descriptor left", DESCRIPTORS
        return _used_up("instances", system)
    if "watch limit" in error or f"os error {errno.ENOSPC}" in error:
        return _used_up("watches", system)
    return error, ""


def _used_up(what: str, system: Path) -> tuple[str, str]:
    limits = [(number, place) for place in _places(system, what) if (number := _number(place)) is not None]
    number, place = min(limits, default=(0, _places(system, what)[0]))
    name = ".".join(place.relative_to(system).parts)
    cause = f"this user's processes hold all {number} inotify {what} that {name} allows"
    return cause, f"sudo sysctl {name}={max(1024, 2 * number)}"


def _descriptor_is_free() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def _places(system: Path, what: str) -> tuple[Path, Path]:
    return system / "fs" / "inotify" / f"max_user_{what}", system / "user" / f"max_inotify_{what}"


def _limit(system: Path, what: str) -> int | None:
    return min((number for place in _places(system, what) if (number := _number(place)) is not None), default=None)


def _own_processes(processes: Path) -> Iterator[Path]:
    for process in processes.glob("[0-9]*"):
        try:
            if process.stat().st_uid == os.getuid():
                yield process
        except OSError:  # it has ended
            continue


def _watches(process: Path, descriptor: str) -> int | None:
    """Watches of one descriptor, None for one that is no inotify instance."""
    try:
        if "inotify" not in os.readlink(process / "fd" / descriptor):
            return None
        return (process / "fdinfo" / descriptor).read_bytes().count(b"inotify wd:")
    except OSError:  # closed meanwhile
        return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
