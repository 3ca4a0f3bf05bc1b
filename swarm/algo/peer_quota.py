"""Decides how many groups of one peer count, as they come one after the other."""

from __future__ import annotations

from collections import Counter

from swarm.types import ScoredGroup


class PeerQuota:
    """Counts groups per peer in one pass, and takes the first `most` of each; None: it takes all."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._seen = Counter[str]()

    def takes(self, scored: ScoredGroup) -> bool:
        """Tells whether it is among the first so many of its peer."""
        self._seen[scored.group.peer_id] += 1
        return self._most is None or self._seen[scored.group.peer_id] <= self._most
