"""Counts consecutive absences of live peers; after MOST_ABSENCES a peer is not waited for. Pure.

Being alive costs a peer nothing but a moving heartbeat; the rounds of others must not hang on that alone.
"""

from __future__ import annotations

from collections.abc import Iterable

MOST_ABSENCES = 3
"""Rounds in a row that a peer may miss before nobody waits for it."""


class Attendance:
    """Counts each peer's absences in a row; one that shows up again is waited for again."""

    def __init__(self) -> None:
        self._absences: dict[str, int] = {}

    def awaited(self, live: Iterable[str]) -> frozenset[str]:
        """Those of the live peers that are worth waiting for."""
        return frozenset(peer for peer in live if self._absences.get(peer, 0) < MOST_ABSENCES)

    def close(self, live: Iterable[str], present: Iterable[str]) -> None:
        """A round was waited for: these were alive, and these did their part."""
        came = set(present)
        self._absences = {peer: self._absences.get(peer, 0) + 1 for peer in live if peer not in came}

    def seen(self, peers: Iterable[str]) -> None:
        """These have done their part after all, in this round or the one before."""
        for peer in peers:
            self._absences.pop(peer, None)
