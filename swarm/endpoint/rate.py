"""A limit per minute on this side: how long the next request has to wait. Pure; the clock is an argument."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MINUTE = 60.0


@dataclass(slots=True)
class Taken:
    """One amount in the window."""

    at: float
    amount: int


class Window:
    """Lets no more than `limit` through in any 60 seconds; one amount that is larger by itself goes alone."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._taken: deque[Taken] = deque()
        self._sum = 0

    def wait(self, now: float, amount: int) -> float:
        """Returns seconds until so much may be taken."""
        if self._limit is None:
            return 0.0
        self._forget(now)
        left, over = len(self._taken), self._sum + amount - self._limit
        for taken in self._taken:
            if over <= 0:
                break
            over -= taken.amount
            left -= 1
            until = taken.at + MINUTE
        return max(0.0, until - now) if left < len(self._taken) else 0.0

    def take(self, now: float, amount: int) -> Taken:
        """Take it; what it turns out to have been is said to `correct`."""
        taken = Taken(now, amount)
        if self._limit is not None:
            self._taken.append(taken)
            self._sum += amount
        return taken

    def correct(self, taken: Taken, amount: int) -> None:
        if any(entry is taken for entry in self._taken):
            self._sum += amount - taken.amount
            taken.amount = amount

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0].at + MINUTE <= now:
            self._sum -= self._taken.popleft().amount
