"""Measures the event loop's lag by how far a short sleep overshoots."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

PERIOD = 0.05


class LoopLag:
    """Measures by how much a short sleep overshoots."""

    def __init__(self) -> None:
        self._most: list[float] = []

    def reader(self) -> Callable[[], float]:
        """Returns a function for one node that gives the seconds of the longest lag since its last call."""
        index = len(self._most)
        self._most.append(0.0)

        def take() -> float:
            most, self._most[index] = self._most[index], 0.0
            return most

        return take

    async def measure(self) -> None:
        """Run until cancelled."""
        while True:
            due = time.monotonic() + PERIOD
            await anyio.sleep(PERIOD)
            late = time.monotonic() - due
            self._most = [max(most, late) for most in self._most]


@asynccontextmanager
async def measured_lag() -> AsyncIterator[LoopLag]:
    """The lag of this event loop, measured while the block runs."""
    lag = LoopLag()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag.measure)
        yield lag
        tasks.cancel_scope.cancel()
