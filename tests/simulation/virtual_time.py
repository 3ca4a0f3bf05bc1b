"""An asyncio event loop whose time passes only while everybody waits, and lives that can be stopped and ended in it.

    world: call_at ─▶ kill, pause, restart ...           nothing of a life runs after its end: tasks, timers, `finally`s
    life:  tasks with LIFE in their context ─▶ handles ─┬▶ run
                                                        ├▶ kept while the life stands still, run when it goes on
                                                        └▶ dropped once it has ended

There are no threads, sockets or signals. Where nothing is left to wait for, the loop raises StandstillError: that is a
deadlock of whoever is simulated.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import sys
import warnings
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from types import CoroutineType
from typing import Any

from anyio._backends._asyncio import _task_states


class StandstillError(AssertionError):
    """Nothing is scheduled any more, and yet somebody waits."""


class Life:
    """One incarnation of one process: whether what belongs to it runs."""

    __slots__ = ("ended", "kept", "paused")

    def __init__(self) -> None:
        self.ended = False
        self.paused = False
        self.kept: list[events.Handle] = []
        """What is due while it is paused."""

    def end(self) -> None:
        """Nothing of it goes on."""
        self.ended = True
        self.kept.clear()


LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)


class _Handle(events.Handle):
    __slots__ = ("life",)
    life: Life

    def _run(self) -> None:
        if self.life.ended:
            return
        if self.life.paused:
            self.life.kept.append(self)
            return
        super()._run()  # type: ignore[misc]


class _TimerHandle(events.TimerHandle):
    __slots__ = ("life",)
    life: Life

    def _run(self) -> None:
        if self.life.ended:
            return
        if self.life.paused:
            self.life.kept.append(self)
            return
        super()._run()  # type: ignore[misc]


class VirtualLoop(asyncio.BaseEventLoop):
    """Begins at time 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = self
        self.set_task_factory(_task)
        self.everything: list[asyncio.Task[Any]] = []
        """All tasks of lives, in the order of their making."""

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> tuple[()]:
        """In the place of a selector: nothing ever comes from outside, so time passes at once."""
        if timeout is None:
            raise StandstillError("nothing is left to wait for")
        self._now += timeout
        return ()

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    # ── whose ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> events.Handle:  # type: ignore[override]
        if context is None:
            context = copy_context()
        life = context.get(LIFE)
        if life is None:
            handle = events.Handle(callback, args, self, context)
        else:
            handle = _Handle(callback, args, self, context)
            handle.life = life
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        if context is None:
            context = copy_context()
        life = context.get(LIFE)
        if life is None:
            timer = events.TimerHandle(when, callback, args, self, context)
        else:
            timer = _TimerHandle(when, callback, args, self, context)
            timer.life = life
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def go_on(self, life: Life) -> None:
        """What a life missed while it was paused happens now, in its order."""
        life.paused = False
        kept, life.kept = life.kept, []
        self._ready.extend(handle for handle in kept if not handle.cancelled())  # type: ignore[attr-defined]

    def _asyncgen_finalizer_hook(self, agen: object) -> None:
        """Asynchronous generators of the dead are not closed either."""

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def drop_everything(self) -> None:
        """Let go of all that still waits, without letting any of it run on."""
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        events._set_running_loop(self)  # for what is cut off in the middle and asks whose it was
        with unheard():
            self._close_everything()
            gc.collect()
        events._set_running_loop(None)

    def _close_everything(self) -> None:
        for generator in self._asyncgens:  # type: ignore[attr-defined]
            _close(generator.ag_await)
        self._asyncgens.clear()  # type: ignore[attr-defined]
        for task in self.everything:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
            _task_states.pop(task, None)  # it would keep the whole world alive: its value leads back to its key
        self.everything.clear()


@contextmanager
def unheard() -> Iterator[None]:
    """Nothing is said of streams that were not closed and calls that were not awaited, as of what is cut off."""
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what was never awaited
            yield
    finally:
        sys.unraisablehook = before


def _close(coroutine: object) -> None:
    """From the innermost outwards, each until it has ended: one that waits for its children whatever comes goes on
    waiting when it is closed, and if its caller has ended by then, it stays until the garbage collector complains."""
    if not isinstance(coroutine, CoroutineType):
        return
    _close(coroutine.cr_await)
    while coroutine.cr_frame is not None:
        with suppress(BaseException):  # whatever it says, nobody listens any more
            coroutine.close()


def _task(loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None, **more: Any) -> asyncio.Task[Any]:
    assert isinstance(loop, VirtualLoop)
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context, **more)
    loop.everything.append(task)
    return task
