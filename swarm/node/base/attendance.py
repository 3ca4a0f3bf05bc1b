"""Decides which live peers are worth waiting for. Pure.

    never seen to do its part ── a newcomer: waited for while the grace lasts that all newcomers of a run share
        │ earn: it did (a coordinator: a reward that counts; a worker: rollouts that it verified)
        ▼
    earned ── waited for until it was absent MOST_ABSENCES times in a row; at once again when it is seen again

Being alive costs a peer nothing but a moving heartbeat, and a name costs nothing at all: the rounds of others must hang
on neither. So the grace is one, not one for each name. It is MOST_ABSENCES rounds that ended without a newcomer, and as
much time as these may take, counted while newcomers alone are missing. What was lost to newcomers that then did their
part is given back; what is lost to names that never do is lost once per run, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

MOST_ABSENCES = 3
"""Rounds in a row that a peer may miss before nobody waits for it; and rounds that newcomers may cost together."""
MOST_EARNED = 4096
"""Peers whose attendance is remembered, those that did their part last."""
_MOST_LOSSES = 64


class _Loss(NamedTuple):
    names: frozenset[str]
    """The newcomers that were waited for."""
    seconds: float
    rounds: int
    """1 if the round then ended without one of them."""


class Attendance:
    """Remembers, for one node's life, which peers have earned that they are waited for."""

    def __init__(self, longest: float) -> None:
        """`longest`: seconds that the longest wait of a round takes."""
        self.longest = longest
        self._earned: dict[str, int] = {}
        """Peer -> how often it has been absent in a row."""
        self._losses: list[_Loss] = []
        self._hoped: frozenset[str] = frozenset()
        """Newcomers that alone were missing at some moment of this wait."""
        self._waited = 0.0
        """Seconds of this wait in which newcomers alone were missing, up to `_since`."""
        self._since: float | None = None

    # ── what is known ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def earned(self) -> Set[str]:
        """Returns the peers that have done their part at some time."""
        return self._earned.keys()

    def awaited(self, live: Iterable[str]) -> frozenset[str]:
        """Returns those of the live peers that are worth waiting for."""
        of_newcomers = 0 if self._grace_lasts() else MOST_ABSENCES
        return frozenset(peer for peer in live if self._earned.get(peer, of_newcomers) < MOST_ABSENCES)

    def _grace_lasts(self) -> bool:
        self._losses = [loss for loss in self._losses if not loss.names <= self.earned]
        seconds = self._waited + sum(loss.seconds for loss in self._losses)
        return seconds < MOST_ABSENCES * self.longest and sum(loss.rounds for loss in self._losses) < MOST_ABSENCES

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────
    def earn(self, peers: Iterable[str]) -> None:
        """Notes that these peers have done their part, in this round or one shortly before."""
        for peer in peers:
            self._earned.pop(peer, None)
            self._earned[peer] = 0
        while len(self._earned) > MOST_EARNED:
            del self._earned[next(iter(self._earned))]

    def seen(self, peers: Iterable[str]) -> None:
        """Takes note of a sign that these peers did their part. A sign proves nothing: those that have earned it are
        present."""
        for peer in self._earned.keys() & set(peers):
            self._earned[peer] = 0

    def wait(self, live: Iterable[str], present: Set[str], now: float) -> frozenset[str]:
        """A round is waited for: who of the awaited is missing at this moment, seconds."""
        if self._since is not None:
            self._waited = min(self._waited + max(0.0, now - self._since), self.longest)
        missing = self.awaited(live) - present
        only_newcomers = bool(missing) and not missing & self.earned
        self._since = now if only_newcomers else None
        if only_newcomers:
            self._hoped |= missing
        return missing

    def close(self, live: Iterable[str], present: Set[str]) -> None:
        """The wait is over: these were alive, and these are there."""
        awaited, alive = self.awaited(live), set(live)
        late = awaited - present - self.earned
        if names := self._hoped | late:
            self._losses.append(_Loss(names, self._waited, int(bool(late))))
        if len(self._losses) > _MOST_LOSSES:
            a, b, *others = self._losses
            self._losses = [_Loss(a.names | b.names, a.seconds + b.seconds, a.rounds + b.rounds), *others]
        absent = alive - present
        for peer, absences in self._earned.items():
            self._earned[peer] = absences + 1 if peer in absent else 0
        self._hoped, self._waited, self._since = frozenset(), 0.0, None
