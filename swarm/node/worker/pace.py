"""Adaptive deadline of gathering: a multiple of the slowest recent wait.

(How long a round stays open is decided in coordinator_machine.py.)
"""

from __future__ import annotations

from collections import deque


class GatherPace:
    """A deadline that follows the swarm: some multiple of the slowest of the recent waits.

    A wait that ended at its deadline was longer than what was seen, so it counts as such and the next deadline grows;
    waits that ended early let it shrink again as they leave the window.
    """

    FACTOR, SLACK, WINDOW = 2.0, 0.5, 8
    LEAST = 0.1
    """Share of the longest wait: who was last for a while, and waited for nobody, still waits when it is first."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        """Seconds that no wait exceeds."""
        self._waits: deque[float] = deque(maxlen=self.WINDOW)

    def allowance(self) -> float:
        """Returns seconds to wait this time, at most `longest`; all of that before anything was learned."""
        if not self._waits:
            return self.longest
        learned = self.FACTOR * max(self._waits) + self.SLACK
        return min(self.longest, max(learned, self.LEAST * self.longest))

    def observe(self, waited: float) -> None:
        """A gather took so many seconds until all awaited peers were there, or until its deadline."""
        self._waits.append(waited)
