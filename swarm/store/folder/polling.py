"""Hints where no events arrive: the folders' times of change are looked at again and again.

    a name came or went ─▶ hint; pause SHORTEST ─▶ x GROWTH ─▶ ... ─▶ the interval at which the reader lists anyway

A look costs a call for each folder, and a listing only where something changed. Where calls are slow pauses are so long
that looking takes a tenth of the time. Times of change may have no more than seconds, so hints go on for two after a
change. A mount that caches them hides changes from this: the reader's own listing finds what is there.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from swarm.errors import StoreError
from swarm.store.folder.beneath import Within

SHORTEST = 0.2
"""Seconds between two looks when something has just changed."""
GROWTH = 1.5
SETTLED = 2.0
"""Seconds: the coarsest time of change that a file system keeps, that of FAT."""
SHARE = 0.1
"""Share of the time that looking may take."""
AmongThem = Callable[[], Sequence[Within]]


async def poll(
    find: Callable[[Sequence[Within]], frozenset[Path]],
    among_them: AmongThem,
    interval: float,
    hint: Callable[[], None],
) -> None:
    """Call `hint` when a name came or went in one of the folders; until cancelled.

    Args:
        find: the folders to look at, with these among them; blocking, raises OSError and StoreError.
        interval: the longest pause.
    """
    look, pause, unsettled = _Look(find), SHORTEST, -math.inf
    while True:
        changed = await to_thread.run_sync(look, tuple(among_them()))
        if changed:
            unsettled = anyio.current_time() + SETTLED
        if anyio.current_time() <= unsettled:
            hint()
        pause = SHORTEST if changed else min(pause * GROWTH, interval)
        await anyio.sleep(max(pause, min(look.took / SHARE, interval)))


class _Look:
    """Tells whether a name came or went since the look before. Blocking."""

    def __init__(self, find: Callable[[Sequence[Within]], frozenset[Path]]) -> None:
        self._find = find
        self._among: tuple[Within, ...] = ()
        self._before: dict[Path, int] = {}
        self.took = 0.0
        """Seconds, of the last one."""

    def __call__(self, among: tuple[Within, ...]) -> bool:
        began = time.monotonic()
        now = times_of_change(self._before)
        changed = not now or now != self._before
        if changed or among != self._among:
            with contextlib.suppress(OSError, StoreError):  # a root is gone for a while
                now = times_of_change(self._find(among))
        self._before, self._among, self.took = now, among, time.monotonic() - began
        return changed


def times_of_change(folders: Iterable[Path]) -> dict[Path, int]:
    """Returns when each folder that is there last got or lost a name, in its file system's nanoseconds."""
    found = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            found[folder] = os.lstat(folder).st_mtime_ns
    return found
