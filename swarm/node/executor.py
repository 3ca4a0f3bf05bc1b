"""The one thread that computes: generation and training, and nothing else, ever.

Torch's grad mode is thread-local and its kernels release the interpreter, so a thread of its own lets the event loop
publish, fetch, score and log meanwhile. One step at a time, in the order of asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from swarm.node.timeline import Timeline

P = ParamSpec("P")
Result = TypeVar("Result")


class ComputeExecutor:
    """A dedicated single thread; `busy` tells when it worked."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.busy = Timeline(now)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")

    async def run(self, step: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run one blocking step. If the caller is cancelled, the step still ends before the next one begins."""

        def timed() -> Result:
            with self.busy.running():
                return step(*args, **kwargs)

        return await asyncio.wrap_future(self._pool.submit(timed))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
