"""Does a file that is renamed into a watched folder wake its watcher, and how soon?"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from swarm.store.folder.filesystem import FileSystem, filesystem_of
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.doctor.listening import Listener

AREA = Area("events")
TRIALS = 5
PATIENCE = 1.5
"""Seconds that an event is waited for."""
SLOW = 0.5
"""Seconds; nodes list the folder every other second in any case."""
_RENAME = "import os, sys; os.rename(sys.argv[1], sys.argv[2])"


class Delivery(msgspec.Struct):
    """What came of it."""

    own: list[float]
    """Seconds from each rename of this process to its wake-up."""
    others: list[float]
    """The same for a rename of a second process, whose start is counted in."""
    lost: int = 0
    """Renames that woke nobody within PATIENCE."""
    problem: str = ""
    """Why nothing could be watched."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Events of this host as measured; those of other hosts by the kind of file system."""
    yield judge_filesystem(filesystem_of(context.layout.path), context.settings.reconcile_interval)
    if context.settings.watch == "off":
        yield AREA.ok("delivery", f"SWARM_WATCH=off: nodes list every {context.settings.reconcile_interval:g} s")
    elif context.probe is not None:
        yield judge_delivery(measure(context.probe), context.settings.reconcile_interval)


def measure(probe: Path) -> Delivery:
    """Rename files into a watched folder, from this process and from another one."""
    watched, delivery = probe / "watched", Delivery([], [])
    watched.mkdir()
    with Listener(watched, PATIENCE) as listener:
        delivery.problem = listener.problem
        if not listener.problem:
            for number in range(TRIALS):
                _try(delivery, delivery.own, _rename_here, watched / f"{number}.json", listener)
            _try(delivery, delivery.others, _rename_elsewhere, watched / "other.json", listener)
    return delivery


def _try(
    delivery: Delivery, took: list[float], rename: Callable[[Path, Path], None], target: Path, listener: Listener
) -> None:
    half = target.parent.with_name(f"{target.name}.tmp")
    half.write_bytes(b"{}")
    started = time.monotonic()
    rename(half, target)
    if listener.hears_of(target.name):
        took.append(time.monotonic() - started)
    else:
        delivery.lost += 1


def _rename_here(half: Path, target: Path) -> None:
    half.rename(target)


def _rename_elsewhere(half: Path, target: Path) -> None:
    call = [sys.executable, "-I", "-S", "-c", _RENAME, os.fspath(half), os.fspath(target)]
    with contextlib.suppress(subprocess.TimeoutExpired):  # whether it was renamed or not: nobody was woken in time
        subprocess.run(call, check=False, stderr=subprocess.DEVNULL, timeout=PATIENCE)


def judge_filesystem(filesystem: FileSystem, interval: float) -> Finding:
    """Whether other hosts' events can arrive at all."""
    where = f"{filesystem.kind} at {filesystem.mount}" if filesystem.mount else filesystem.kind
    if filesystem.delivers_events:
        return AREA.ok("file system", f"{where}: events arrive for all that this host writes")
    measured = f"{where}: no events for what other hosts write; nodes find it by listing, every {interval:g} s"
    return AREA.warning("file system", measured, "nothing breaks; for quicker rounds lower SWARM_RECONCILE_INTERVAL")


def judge_delivery(delivery: Delivery, interval: float) -> Finding:
    """The times as a finding."""
    listing = f"nodes find everything by listing, every {interval:g} s"
    if delivery.problem:
        fix = "raise the inotify limits (below), or set SWARM_WATCH=off to do without events"
        return AREA.warning("delivery", f"cannot watch: {delivery.problem}; {listing}", fix)
    tried = len(delivery.own) + len(delivery.others) + delivery.lost
    if delivery.lost:
        fix = "nothing breaks; set SWARM_WATCH=off and lower SWARM_RECONCILE_INTERVAL where rounds are short"
        return AREA.warning("delivery", f"{delivery.lost} of {tried} renames woke nobody; {listing}", fix)
    took = sorted(delivery.own)[len(delivery.own) // 2]
    measured = f"{took * 1e3:.0f} ms from rename to wake-up, {delivery.others[0] * 1e3:.0f} ms from another process"
    if took > SLOW:
        return AREA.warning("delivery", measured, f"take load off this host; {listing} in any case")
    return AREA.ok("delivery", measured)
