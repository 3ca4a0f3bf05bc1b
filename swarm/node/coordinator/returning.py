"""Decides who loads again after a death, and how long the others wait for it. Pure.

    starting ──a live worker waits──▶ waited for ──two median rounds──▶ not waited for
                                          └────────a reward of it────────▶ forgotten: the next time counts anew

A node that dies again before its next reward gets no more time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from statistics import median

ROUNDS = 2
"""Median rounds that a node is waited for: with its own work the round then lasts some three."""
_REMEMBERED = 32
"""Rounds of which the median is taken."""


class Returning:
    """Tracks, for one coordinator's life, which nodes load again after a death and how long others wait for them."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        """Node -> when a live worker began to wait for it."""
        self._took: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def longest(self) -> float | None:
        """Returns seconds that a node is waited for; None: no round is over yet, and the interval alone bounds the
        wait."""
        return ROUNDS * median(self._took) if self._took else None

    def round_took(self, seconds: float) -> None:
        """A round is over."""
        self._took.append(seconds)

    def done(self, nodes: Set[str]) -> None:
        """Notes that these nodes have a reward for the round."""
        for node in self._since.keys() & nodes:
            del self._since[node]

    def awaited(self, coming: Set[str], now: float) -> frozenset[str]:
        """Returns those of the starting nodes that are still waited for; somebody live waits."""
        for node in coming:
            self._since.setdefault(node, now)
        longest = self.longest
        return frozenset(node for node in coming if longest is None or now - self._since[node] < longest)
