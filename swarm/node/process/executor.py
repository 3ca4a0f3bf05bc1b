"""The compute thread: generation and training, and nothing else.

    node a ─ ComputeExecutor ─┐
    node b ─ ComputeExecutor ─┼▶ ComputeThread: one step at a time, in the order of asking
    node c ─ ComputeExecutor ─┘

Torch's grad mode is thread-local and its kernels release the interpreter, so a thread of its own lets the event loop
publish, fetch, score and log meanwhile. Nodes in one process share the thread of their device; each sees its own work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from swarm.node.base.timeline import Timeline

P = ParamSpec("P")
Result = TypeVar("Result")


class ComputeThread:
    """A dedicated thread, until `close`."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")

    def submit(self, step: Callable[[], Result]) -> Future[Result]:
        """Queue one blocking step, to be run in the caller's context: what it logs belongs to the caller's node."""
        return self._pool.submit(copy_context().run, step)

    def close(self) -> None:
        """End the step in hand; those that wait are cancelled."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class ComputeExecutor:
    """As swarm.node.base.context.Compute: one node's way to a compute thread."""

    def __init__(self, now: Callable[[], float], thread: ComputeThread | None = None) -> None:
        """`thread` is shared and closed by whoever made it; None: one of its own, closed at the end of `with`."""
        self.busy = Timeline(now, Lock())
        self._thread = thread or ComputeThread()
        self._shared = thread is not None

    async def run(self, step: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run one blocking step. If the caller is cancelled, the step still ends before the next one begins."""

        def timed() -> Result:
            with self.busy.running():
                return step(*args, **kwargs)

        return await asyncio.wrap_future(self._thread.submit(timed))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._shared:
            self._thread.close()
