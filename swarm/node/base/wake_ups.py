"""Wake-ups: something in the shared place may have changed, so list it again.

    every interval, by the node's clock ─┐
    a hint of the store ─────────────────┴─▶ one wake-up, merged with those that nobody took yet

A hint may be lost or never come, so with none at all everything is still found within one interval.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from swarm.node.base.context import NodeContext


@asynccontextmanager
async def wake_ups(
    ctx: NodeContext, prefixes: Sequence[str], interval: float
) -> AsyncIterator[ObjectReceiveStream[None]]:
    """A stream that gives one item at once, and again when something below the prefixes may have changed.

    Args:
        interval: seconds after which a wake-up comes in any case; alone, where the settings turn watching off.
    """
    send, receive = anyio.create_memory_object_stream[None](1)
    async with send, receive, anyio.create_task_group() as tasks:
        tasks.start_soon(_every, ctx, interval, send)
        if ctx.settings.watch == "auto":
            tasks.start_soon(_on_hints, ctx, prefixes, interval, send)
        yield receive
        tasks.cancel_scope.cancel()


async def _every(ctx: NodeContext, interval: float, send: MemoryObjectSendStream[None]) -> None:
    while True:
        _wake(send)
        await ctx.clock.sleep(interval)


async def _on_hints(
    ctx: NodeContext, prefixes: Sequence[str], interval: float, send: MemoryObjectSendStream[None]
) -> None:
    async with ctx.run.store.hints(prefixes, interval) as hints:
        async for _ in hints:
            _wake(send)


def _wake(send: MemoryObjectSendStream[None]) -> None:
    with suppress(anyio.WouldBlock):  # one is waiting already: the reader will list everything anyway
        send.send_nowait(None)
