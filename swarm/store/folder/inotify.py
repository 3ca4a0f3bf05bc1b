"""Reads the limits of inotify, and counts what is in use of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from swarm.store.health import Inotify

SYSTEM = Path("/proc/sys")
"""inotify(7): fs/inotify has the machine's limits; namespaces(7): user/ has those of this user namespace, a container's
own. Both hold."""
PROCESSES = Path("/proc")


def measure(system: Path = SYSTEM, processes: Path = PROCESSES) -> Inotify:
    """As swarm.store.health.Health.inotify."""
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


def _limit(system: Path, what: str) -> int | None:
    places = (system / "fs" / "inotify" / f"max_user_{what}", system / "user" / f"max_inotify_{what}")
    return min((number for place in places if (number := _number(place)) is not None), default=None)


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
