"""Whose weights a node waits for and takes the mean of, pure: what is there in, what to do out. averaging.py does it.

    own weights published ─▶ WAITING ─┬─ those of all expected workers are there, or refused ─▶ the mean of those there
                              │  ▲    ├─ `until` has come, or the node is to end ──▶ the mean of those there, and the
                     look, fetch └┘   │                                               missing ones are named
                                      └─ this node is none of the expected ones ────▶ nothing

Expected are those of the setting `expected_workers`: by name, or the registered workers that are alive or whose weights
of this round are there, by a number n the first n of them by name: who has finished the run counts, and who is dead and
has not published is not waited for in the place of a live one.
The mean is over names in order, so that all who average the same files compute the same bits.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

MOST = 256
"""Names that one look asks for; registrations cost a stranger little."""


class Seen(NamedTuple):
    """Holds what a look at the weights of a round shows."""

    now: float
    known: Set[str]
    """Registered workers other than this node, dead or alive."""
    live: Set[str]
    """Those of them that are alive."""
    there: Set[str]
    """Those of them with a file of weights for the round."""
    fit: Set[str]
    """Nodes whose weights can be averaged, this one included."""
    refused: Set[str]
    """Nodes whose weights are not to be taken."""
    stopping: bool = False
    """This node is to end."""


class Average(NamedTuple):
    """Take the mean of the weights of these nodes, in this order; of none: leave the own ones as they are."""

    nodes: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """Expected nodes whose weights are not there."""
    short: int = 0
    """Workers that were expected and that nobody knows."""


class AveragingMachine:
    """Decides for one node and one round whose weights are averaged."""

    def __init__(self, own: str, count: int | None, names: Set[str], until: float) -> None:
        """Begin to wait.

        Args:
            own: this node.
            count: how many workers are expected; None: all that are alive or have published.
            names: who is expected; empty: anybody.
            until: the longest to wait, in monotonic seconds.
        """
        self._own = own
        self._count = count
        self._names = names
        self._until = until

    def look(self, seen: Seen) -> Average | None:
        """Returns whose weights to average; None: wait on."""
        expected = self.expected(seen)
        if self._own not in expected:
            return Average(())
        settled = seen.fit | seen.refused
        missing = tuple(node for node in expected if node not in settled)
        short = max(0, (self._count or 0) - len(expected))
        if (missing or short) and seen.now < self._until and not seen.stopping:
            return None
        return Average(tuple(node for node in expected if node in seen.fit), missing, short)

    def expected(self, seen: Seen) -> list[str]:
        """Returns the workers whose weights count, in order, as far as they are known."""
        known = seen.known | {self._own}
        if self._names:
            return sorted(self._names & known)
        present = (seen.live | seen.there | {self._own}) & known
        return sorted(present)[: self._count]

    def to_look_for(self, known: Set[str], live: Set[str], there: Set[str]) -> list[str]:
        """Workers of which it is not known whether their weights are there, the live ones first; at most MOST."""
        candidates = (known & self._names if self._names else known) - there - {self._own}
        return sorted(candidates, key=lambda node: (node not in live, node))[:MOST]

    def to_fetch(self, seen: Seen) -> list[str]:
        """Returns whose weights are there, count, and were not looked into; no more than so many files are read."""
        return [node for node in self.expected(seen) if node in seen.there - seen.fit - seen.refused]
