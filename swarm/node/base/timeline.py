"""Timeline: intervals of an activity, with union and overlap. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise

Interval = tuple[float, float]


class Timeline:
    """Collects the intervals of one kind of activity; several may run at once."""

    def __init__(self, now: Callable[[], float], lock: AbstractContextManager[object] | None = None) -> None:
        """`lock`: where another thread writes than reads."""
        self._now = now
        self._closed: list[Interval] = []
        self._open: dict[int, float] = {}
        self._last = 0
        self._lock = lock or nullcontext()

    @contextmanager
    def running(self) -> Iterator[None]:
        """The activity goes on while the block runs."""
        with self._lock:
            self._last += 1
            ticket = self._last
            self._open[ticket] = self._now()
        try:
            yield
        finally:
            with self._lock:
                self._closed.append((self._open.pop(ticket), self._now()))

    def since(self, start: float) -> list[Interval]:
        """Returns all that happened from `start` on, cut there; what still runs ends now."""
        with self._lock:
            now = self._now()
            intervals = [*self._closed, *((begun, now) for begun in self._open.values())]
        return merge([(max(a, start), b) for a, b in intervals if b > start])

    def forget_before(self, start: float) -> None:
        """Drop what ended before; a daemon runs for weeks."""
        with self._lock:
            self._closed = [interval for interval in self._closed if interval[1] >= start]


def merge(intervals: list[Interval]) -> list[Interval]:
    """Disjoint intervals in order that cover the same time."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def coarse(intervals: list[Interval], most: int) -> list[Interval]:
    """Joins disjoint intervals in order until they are at most so many: those with the least time between them become
    one."""
    found = list(intervals)
    while len(found) > most:
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(found)]
        at = gaps.index(min(gaps))
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return found


def total(intervals: list[Interval]) -> float:
    """Returns seconds covered by disjoint intervals."""
    return sum(end - begin for begin, end in intervals)


def overlap(left: list[Interval], right: list[Interval]) -> float:
    """Returns seconds covered by both; each side disjoint."""
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in left for c, d in right)
