"""ComputeExecutor: runs generation and training steps one at a time, in a thread shared by the nodes of a process.

    node a ─ ComputeExecutor ─┐
    node b ─ ComputeExecutor ─┼▶ compute_thread: one step at a time, in the order of asking
    node c ─ ComputeExecutor ─┘

Torch's grad mode is thread-local and its kernels release the interpreter, so a thread of its own lets the event loop
publish, fetch, score and log meanwhile. Nodes in one process share the thread of their device; each sees its own work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import ParamSpec, TypeVar

from swarm.node.base.context import Timed, generate_now
from swarm.node.base.timeline import Timeline
from swarm.node.process.together import GenerationTogether, NodeCall
from swarm.types import BatchingGenerator, GenerationCall, Generator, Groups, RemoteGenerator

P = ParamSpec("P")
Result = TypeVar("Result")


def _within(timed: Timed, step: Callable[[], Result]) -> Result:
    with timed():
        return step()


@contextmanager
def compute_thread() -> Iterator[ThreadPoolExecutor]:
    """A thread for the length of the block; its end waits for the step in hand and cancels those that wait."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
    try:
        yield thread
    finally:
        thread.shutdown(wait=True, cancel_futures=True)


class ComputeExecutor:
    """Runs one node's steps in a compute thread, which other nodes may share; it implements
    swarm.node.base.context.Compute."""

    def __init__(
        self,
        now: Callable[[], float],
        thread: ThreadPoolExecutor,
        node_id: str = "",
        together: GenerationTogether | None = None,
    ) -> None:
        """`together`: what the nodes of this thread generate with; None: each by itself."""
        self.busy = Timeline(now, Lock())
        self._thread = thread
        self._node_id = node_id
        self._together = together
        self._loop: asyncio.AbstractEventLoop

    async def run(self, step: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run one blocking step. If the caller is cancelled, the step still ends before the next one begins.

        It runs in the caller's context: what it logs belongs to the caller's node.
        """

        def timed() -> Result:
            with self.busy.running():
                return step(*args, **kwargs)

        self._loop = asyncio.get_running_loop()
        return await asyncio.wrap_future(self._thread.submit(copy_context().run, timed))

    async def generate(self, generator: Generator, call: GenerationCall, timed: Timed = nullcontext) -> Groups:
        """Generates together with those nodes of this process whose generators can be batched with this one. While a
        server writes, the compute thread is free."""
        if isinstance(generator, RemoteGenerator):
            return await self._generate_elsewhere(generator, call, timed)
        if self._together is None or not isinstance(generator, BatchingGenerator) or generator.batch_key is None:
            return await self.run(generate_now, generator, call, timed)

        @contextmanager
        def running() -> Iterator[None]:
            with self.busy.running(), timed():
                yield

        self._loop = asyncio.get_running_loop()
        return await self._together.generate(NodeCall(self._node_id, generator, call, running))

    async def _generate_elsewhere(self, generator: RemoteGenerator, call: GenerationCall, timed: Timed) -> Groups:
        asked = await self.run(_within, timed, partial(generator.ask, call))
        with timed():
            await asked.wait()
        return await self.run(_within, timed, asked.groups)

    def tell(self, call: Callable[[], None]) -> None:
        """Calls a function soon in the event loop; any thread may ask for it."""
        self._loop.call_soon_threadsafe(call)
