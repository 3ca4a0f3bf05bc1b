"""Time as an argument, so that tests and simulations bring their own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import anyio


@dataclass(frozen=True)
class Clock:
    """The times of one node. Nothing in a node reads, waits or gives up by any other."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds for durations and deadlines; comparable within this process alone."""
    wall: Callable[[], float] = time.time
    """Unix seconds for what people and peers read."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    """Wait for some seconds of `monotonic`."""
    move_on_after: Callable[[float | None], AbstractContextManager[anyio.CancelScope]] = anyio.move_on_after
    """Leave the block after some seconds of `monotonic`; None: never."""
