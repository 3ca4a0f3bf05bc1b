"""An event loop that does nothing but run what is ready: no sockets, no threads, no clock.

A scoring child may open nothing, and asyncio's own loops open a pair of sockets and wait at a selector. Here time is
counted: where nothing is ready it is the time of the earliest timer, so that who sleeps wakes at once, in the same
order everywhere. What asks a loop for files, sockets, processes or threads gets NotImplementedError.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Ts = TypeVarTuple("Ts")


class StuckError(Exception):
    """A coroutine waits for what nobody will bring."""


class PlainLoop(asyncio.AbstractEventLoop):
    """One coroutine's, and of the tasks that it starts."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._now = 0.0
        self._count = 0

    def run(self, main: Coroutine[Any, Any, Result], until: Callable[[], bool]) -> Result | None:
        """Run it to its end; None: `until` held when all waited.

        Raises:
            StuckError: all wait, and no timer is set.
            Exception: what it raised.
        """
        asyncio._set_running_loop(self)
        try:
            task = asyncio.Task(main, loop=self)
            while not task.done() and self._step(until):
                pass
            return task.result() if task.done() else None
        finally:
            asyncio._set_running_loop(None)

    def _step(self, until: Callable[[], bool]) -> bool:
        if not self._ready:
            if until():
                return False
            if not self._timers:
                raise StuckError("it waits for something that is not there: files, sockets, threads and processes")
            when, _, timer = heapq.heappop(self._timers)
            if timer.cancelled():
                return True
            self._now = when
            self._ready.append(timer)
        handle = self._ready.popleft()
        if not handle.cancelled():
            handle._run()
        return True

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """See asyncio."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (max(when, self._now), self._count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Does nothing: the timer is passed over when its time comes."""

    def time(self) -> float:
        """Returns seconds that were slept."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """See asyncio."""
        options.pop("eager_start", None)
        return asyncio.Task(coro, loop=self, **options)

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def is_running(self) -> bool:
        """See asyncio."""
        return True

    def is_closed(self) -> bool:
        """See asyncio."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignores what a task raised that nobody waits for."""
