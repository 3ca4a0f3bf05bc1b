"""The system's clock, Blocking on the event loop's thread pool, and the loop's lag."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
from anyio import to_thread

from swarm.node.base.context import Clock

P = ParamSpec("P")
Result = TypeVar("Result")

SYSTEM_CLOCK = Clock(
    monotonic=time.monotonic, wall=time.time, sleep=anyio.sleep, move_on_after=lambda delay: anyio.move_on_after(delay)
)


class ThreadBlocking:
    """Runs each blocking call in a thread of the event loop's pool; it implements swarm.node.base.context.Blocking."""

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run it and give what it returns or raises; a caller that is cancelled leaves once the call has ended."""
        return await to_thread.run_sync(partial(call, *args, **kwargs))

    async def run_or_leave(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """The same, but such a caller leaves at once."""
        return await to_thread.run_sync(partial(call, *args, **kwargs), abandon_on_cancel=True)


PERIOD = 0.05


class LoopLag:
    """Measures the event loop's lag by how far a short sleep overshoots."""

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
