"""Decides when a model that is being trained is pushed: pure.

look(newest checkpoint, whether the node is done, now) ─▶ Push | PushWait | PushEnd
                                ▲
pushed(rounds), failed(now) ────┘   a failure is tried again after pauses that double
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds between two tries while pushing fails."""


@dataclass(frozen=True)
class Push:
    """Push the checkpoint behind so many rounds."""

    rounds_done: int


@dataclass(frozen=True)
class PushWait:
    """Look again after so many seconds, or when asked to end."""

    seconds: float


@dataclass(frozen=True)
class PushEnd:
    """Says that there is nothing more to push, or no more time to."""

    missing: int
    """Rounds behind a checkpoint that could not be pushed; 0: all was."""


class PushMachine:
    """Decides for one node."""

    def __init__(self, every: int, *, look_every: float, patience: float) -> None:
        """
        Args:
            every: rounds between two pushes; 0: only the last checkpoint.
            look_every: seconds between two looks.
            patience: seconds for which the last push is tried.
        """
        self._every = every
        self._look_every = look_every
        self._patience = patience
        self._pushed = 0
        self._failures = 0
        self._not_before = 0.0
        self._ends_at: float | None = None

    def look(self, newest: int, over: bool, now: float) -> Push | PushWait | PushEnd:
        """Decides what to do next.

        Args:
            newest: rounds behind the newest whole checkpoint; 0: there is none.
            over: no newer one will come.
            now: monotonic seconds.
        """
        due = newest > self._pushed and (over or (self._every > 0 and newest >= self._pushed + self._every))
        if over and self._ends_at is None:
            self._ends_at, self._not_before = now + self._patience, now
        if over and not due:
            return PushEnd(0)
        if self._ends_at is not None and now >= self._ends_at and self._failures:
            return PushEnd(newest)
        if due and now >= self._not_before:
            return Push(newest)
        return PushWait(max(0.0, self._not_before - now) if due else self._look_every)

    def pushed(self, rounds_done: int) -> None:
        """Notes that a push was taken."""
        self._pushed, self._failures, self._not_before = rounds_done, 0, 0.0

    def failed(self, now: float, *, lasting: bool = False) -> float:
        """Notes that a push was not taken; returns the seconds until the next try, the longest where trying again alone
        will not help."""
        pause = LONGEST_PAUSE if lasting else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        if self._ends_at is not None:
            self._ends_at = now if lasting else self._ends_at
            pause = min(pause, max(0.0, self._ends_at - now))
        self._failures += 1
        self._not_before = now + pause
        return pause
