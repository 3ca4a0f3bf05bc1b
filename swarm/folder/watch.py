"""Wake-ups: something in the folder may have changed, so list it again.

An event is only a hint. Events get lost (new folders, overflowed queues), so a wake-up also comes after every
reconcile interval and after every failure of the watcher, which is restarted with back-off. With no event at all,
everything is still found within one interval.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import watchfiles
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from swarm.logs import get_logger

logger = get_logger(__name__)

DEBOUNCE_MS, STEP_MS = 50, 10
"""Measured: 13 ms on a quiet folder and 19 ms on a busy one, where the defaults gave 68 and 1,619."""
RETURN_MS = 200
"""How often the watching thread comes up for air: only then it notices that it is to end. No event is lost by it."""
BACK_OFF_FIRST, BACK_OFF_MOST = 1.0, 60.0


@asynccontextmanager
async def wake_ups(
    folders: list[Path], interval: float, *, events: bool = True
) -> AsyncIterator[MemoryObjectReceiveStream[None]]:
    """A stream that gives one item when the folders may have changed; wake-ups that nobody took yet are merged.

    Args:
        folders: watched with everything below; they are made if they are missing.
        interval: seconds after which a wake-up comes in any case.
        events: False finds everything by the interval alone.
    """
    send, receive = anyio.create_memory_object_stream[None](1)
    async with send, receive, anyio.create_task_group() as tasks:
        tasks.start_soon(_every, interval, send)
        if events:
            tasks.start_soon(_watch, folders, send)
        yield receive
        tasks.cancel_scope.cancel()


def _wake(send: MemoryObjectSendStream[None]) -> None:
    with contextlib.suppress(anyio.WouldBlock):  # one is waiting already: the reader will list everything anyway
        send.send_nowait(None)


async def _every(interval: float, send: MemoryObjectSendStream[None]) -> None:
    while True:
        _wake(send)
        await anyio.sleep(interval)


async def _watch(folders: list[Path], send: MemoryObjectSendStream[None]) -> None:
    pause = BACK_OFF_FIRST
    while True:
        started = anyio.current_time()
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            async for _ in watchfiles.awatch(
                *folders, watch_filter=None, debounce=DEBOUNCE_MS, step=STEP_MS, recursive=True, rust_timeout=RETURN_MS
            ):
                _wake(send)
        except Exception as error:  # noqa: BLE001 - the boundary of a library that fails in many ways; listing goes on
            pause = BACK_OFF_FIRST if anyio.current_time() - started > BACK_OFF_MOST else pause
            logger.warning("watch.failed", error=str(error), retry_in=pause)
        _wake(send)
        await anyio.sleep(pause)
        pause = min(pause * 2, BACK_OFF_MOST)
