"""Reads the limits of inotify, and tells which of them ended a watcher."""

from __future__ import annotations

import errno
import os
from pathlib import Path

SYSTEM = Path("/proc/sys")
"""inotify(7): fs/inotify has the machine's limits; namespaces(7): user/ has those of this user namespace, a container's
own. Both hold."""
DESCRIPTORS = "ulimit -n 4096 before the node is started"


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


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
