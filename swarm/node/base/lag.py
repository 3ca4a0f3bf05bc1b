"""How late the event loop is: pure-Python work that holds the interpreter shows here first."""

from __future__ import annotations

from collections.abc import Callable

import anyio

PERIOD = 0.05


class LoopLag:
    """Measures by how much a short sleep overshoots."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._most = 0.0

    async def measure(self) -> None:
        """Run until cancelled."""
        while True:
            due = self._now() + PERIOD
            await anyio.sleep(PERIOD)
            self._most = max(self._most, self._now() - due)

    def take(self) -> float:
        """Seconds of the longest lag since the last call."""
        most, self._most = self._most, 0.0
        return most
