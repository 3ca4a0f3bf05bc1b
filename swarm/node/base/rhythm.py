"""Decides when a node looks at a place that charges for every look.

    something changed ─▶ pause SHORTEST ─▶ x GROWTH ─▶ ... ─▶ the longest          (looks, while somebody waits)
    expect            ─▶ none before the first thing can be there, by what the round before took
    rest              ─▶ none until it is quickened                                (the node computes)

A folder is listed every interval and hints wake its readers; there this is not used.
"""

from __future__ import annotations

import math

import anyio

from swarm.node.base.context import Clock

SHORTEST = 1.0
"""Seconds between two looks when something has just changed."""
GROWTH = 1.5
EARLY = 0.9
"""Share of the time that it took before: from then on it is looked for."""


class Rhythm:
    """Pauses between looks; `sleep` stands in for Clock.sleep."""

    def __init__(self, clock: Clock, most: float) -> None:
        """`most`: seconds without a look, whatever is expected."""
        self._clock = clock
        self._most = most
        self._pause = SHORTEST
        self._due = -math.inf
        self._resting = False
        self._quickened = anyio.Event()

    def quicken(self) -> None:
        """Something is waited for from now on: look at once, and soon again."""
        self._pause, self._resting = SHORTEST, False
        self._quickened.set()

    def keep_pace(self) -> None:
        """A look has found something new: the next ones come soon."""
        self._pause = SHORTEST

    def expect(self, seconds: float) -> None:
        """Expects something after so many seconds, as long as it took the last time."""
        self._pause, self._due = SHORTEST, self._clock.monotonic() + EARLY * seconds

    def rest(self) -> None:
        """Rests: nobody waits for anything, so there are no looks until it is quickened."""
        self._resting = True

    async def sleep(self, longest: float) -> None:
        """Sleeps until the next look is due, at most so many seconds unless nothing can be there; resting, until
        quickened."""
        with self._clock.move_on_after(None if self._resting else self._next(longest)):
            await self._quickened.wait()
        self._quickened = anyio.Event()

    def _next(self, longest: float) -> float:
        ahead = self._due - self._clock.monotonic()
        if ahead > SHORTEST:
            return min(ahead, self._most)
        pause = min(self._pause, longest)
        self._pause = min(pause * GROWTH, longest)
        return pause
