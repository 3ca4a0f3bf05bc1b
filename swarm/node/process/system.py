"""What a node has of its process: clock, threads, the compute thread, and signals.

ComputeExecutor runs generation and training steps one at a time, in a thread shared by the nodes of a process.

    node a ─ ComputeExecutor ─┐
    node b ─ ComputeExecutor ─┼▶ compute_thread: one step at a time, in the order of asking
    node c ─ ComputeExecutor ─┘

Torch's grad mode is thread-local and its kernels release the interpreter, so a thread of its own lets the event loop
publish, fetch, score and log meanwhile. Nodes in one process share the thread of their device; each sees its own work.

The first signal asks a node to stop, the second one ends the process.

A second SIGTERM within SAME_ASK_SECONDS is the first one again: systemd and Slurm send theirs to every process of a
swarm, and `swarm up` passes its own on to its nodes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import ParamSpec, Protocol, TypeVar

import anyio
from anyio import to_thread

from swarm.logs import flush_files, get_logger
from swarm.node.base.context import Clock, Timed, Timeline, generate_now
from swarm.node.process.together import GenerationTogether, NodeCall
from swarm.types import BatchingGenerator, GenerationCall, Generator, Groups, RemoteGenerator

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
        """Generates together with those nodes of this process whose generators can be batched with this one. While
        completions are written elsewhere, the compute thread is free."""
        if isinstance(generator, RemoteGenerator):
            with timed():
                return await generator.write(call)
        if self._together is None or not isinstance(generator, BatchingGenerator) or generator.batch_key is None:
            return await self.run(generate_now, generator, call, timed)

        @contextmanager
        def running() -> Iterator[None]:
            with self.busy.running(), timed():
                yield

        self._loop = asyncio.get_running_loop()
        return await self._together.generate(NodeCall(self._node_id, generator, call, running))

    def tell(self, call: Callable[[], None]) -> None:
        """Calls a function soon in the event loop; any thread may ask for it."""
        self._loop.call_soon_threadsafe(call)


logger = get_logger(__name__)

INTERRUPTED, TERMINATED = 130, 143
SAME_ASK_SECONDS = 3.0
LAST_WORDS_SECONDS = 1.0
"""That a process which is to end at once waits for its log."""
_EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
if sys.platform != "win32":
    _EXIT_CODES[signal.SIGHUP] = TERMINATED


def log_the_end() -> None:
    """Logs a node's last words, when somebody insists that it ends."""
    logger.warning("node.killed")


async def on_signals(stop: Callable[[int], None], insist: Callable[[], None] = log_the_end) -> None:
    """Call `stop(exit_code)` at the first signal; at the second call `insist` and end the process at once.

    Runs until cancelled.
    """
    first: tuple[int, float] | None = None
    with anyio.open_signal_receiver(*_EXIT_CODES) as signals:
        async for number in signals:
            code = _EXIT_CODES[number]
            if first is None:
                first = number, time.monotonic()
                stop(code)
            elif not (number == first[0] == signal.SIGTERM and time.monotonic() - first[1] < SAME_ASK_SECONDS):
                insist()
                flush_files(LAST_WORDS_SECONDS)
                os._exit(code)


class Node(Protocol):
    """Describes what a process runs: a worker, a coordinator, or several of them."""

    async def run(self) -> int:
        """Live until the experiment is over or `stop` is called; the exit code."""

    def stop(self, exit_code: int) -> None:
        """Finish the step, save, end with this exit code."""


async def run_until_signal(node: Node) -> int:
    """Run a node to its end; a signal asks it to stop. Returns its exit code."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(on_signals, node.stop)
        code = await node.run()
        tasks.cancel_scope.cancel()
    return code
