"""Looks that any number of browsers share: a run is read at most once per interval, and only while somebody asks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread

from swarm.web.look import WebLook

Found = TypeVar("Found")
MOST_RUNS = 6
"""Whose histories are held; the one that was asked for longest ago is let go."""


class WatchedRun:
    """One run."""

    def __init__(self, look: WebLook, interval: float, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        """Make one that has not looked yet.

        Args:
            interval: seconds for which what was read is good enough.
            clock, wall: monotonic and Unix seconds.
        """
        self.look = look
        self._interval = interval
        self._clock = clock
        self._wall = wall
        self._read_at: float | None = None
        self._lock = anyio.Lock()

    async def ask(self, question: Callable[[WebLook], Found]) -> Found:
        """Returns the answer to a question on the run by now, made in a thread of its own.

        Raises:
            SwarmError: the place fails, or as the question does.
        """
        async with self._lock:
            return await to_thread.run_sync(partial(self._answer, question))

    def _answer(self, question: Callable[[WebLook], Found]) -> Found:
        now = self._clock()
        if self._read_at is None or now - self._read_at >= self._interval:
            self.look.refresh(self._wall())
            self._read_at = now
        return question(self.look)


class AllWatched:
    """The runs of a place that are looked at."""

    def __init__(self, watch: Callable[[str], WatchedRun]) -> None:
        """`watch`: opens a run by its name; blocking, raises ExperimentError where there is none."""
        self._watch = watch
        self._held: OrderedDict[str, WatchedRun] = OrderedDict()

    async def of(self, experiment: str) -> WatchedRun:
        """Returns the one of this name. Raises ExperimentError: there is none."""
        if experiment not in self._held:
            found = await to_thread.run_sync(self._watch, experiment)
            self._held.setdefault(experiment, found)
            while len(self._held) > MOST_RUNS:
                self._held.popitem(last=False)
        self._held.move_to_end(experiment)
        return self._held[experiment]
