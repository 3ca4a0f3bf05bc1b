"""Wake-ups: something in the shared place may have changed, so list it again.

    every interval, by the caller's clock ─┐
    a hint of the store ───────────────────┴─▶ one wake-up, merged with those that nobody took yet

A hint may be lost or never come, so with none at all everything is still found within one interval.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from swarm.store.base import Prefixes, Store


@asynccontextmanager
async def wake_ups(
    store: Store,
    prefixes: Sequence[str],
    interval: float,
    sleep: Callable[[float], Awaitable[None]],
    *,
    hints: bool,
    among_them: Prefixes = tuple,
    merged: bool = False,
) -> AsyncIterator[ObjectReceiveStream[None]]:
    """A stream that gives one item at once, and again when something below the prefixes may have changed.

    Args:
        interval: seconds after which a wake-up comes in any case.
        sleep: waits for some seconds.
        hints: False: the interval alone wakes, as where the settings turn watching off.
        among_them: prefixes below those that matter most now, as of Store.watch.
        merged: a hint stands for the wake-up that is due next, so that two are less than two intervals apart.
    """
    send, receive = anyio.create_memory_object_stream[None](1)
    hinted = False

    def hint() -> None:
        nonlocal hinted
        hinted = True
        wake(send)

    async def every() -> None:
        nonlocal hinted
        while True:
            if not (merged and hinted):
                wake(send)
            hinted = False
            await sleep(interval)

    async with send, receive, anyio.create_task_group() as tasks:
        tasks.start_soon(every)
        if hints:
            tasks.start_soon(store.watch, prefixes, interval, hint, among_them)
        yield receive
        tasks.cancel_scope.cancel()


def wake(send: MemoryObjectSendStream[None]) -> None:
    """Wake whoever receives, once for all that came since it looked last."""
    # one is waiting already, or nobody does any longer
    with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
        send.send_nowait(None)
