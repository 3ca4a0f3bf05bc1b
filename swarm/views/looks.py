"""Says when a live view looks again: in a folder at its own pace; where requests are paid for so that it asks once a
second at most, and ever more seldom while there is no news."""

from __future__ import annotations

from swarm.store.base import Store

GROWTH = 1.5
"""Each look without news is so many times as long after the one before as that was."""
LONGEST = 60.0
"""Seconds; a round takes about as long."""


class Looks:
    """Owns the pace of one view."""

    def __init__(self, store: Store, every: float) -> None:
        """Make one that counts from now on what the view asks of the store.

        Args:
            every: seconds between two looks where they cost nothing, and the least elsewhere.
        """
        self._store = store
        self._every = self._last = every
        self._asked = self._requests()

    def _requests(self) -> int:
        spent = self._store.facts().spent
        return spent.requests.total() if spent else 0

    def pause(self, *, news: bool) -> float:
        """Returns the seconds until the next look.

        Args:
            news: the last one saw something that the one before had not.
        """
        before, self._asked = self._asked, self._requests()
        if self._asked == 0:
            return self._every
        least = max(self._every, float(self._asked - before))
        self._last = least if news else max(least, min(LONGEST, GROWTH * self._last))
        return self._last
