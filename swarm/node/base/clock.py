"""Time as an argument, so that tests and simulations bring their own; node/process has the system's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for commands that only look start without it
    from anyio import CancelScope


@dataclass(frozen=True)
class Clock:
    """The times of one node. Nothing in a node reads, waits or gives up by any other."""

    monotonic: Callable[[], float]
    """Seconds for durations and deadlines; comparable within this process alone."""
    wall: Callable[[], float]
    """Unix seconds for what people and peers read."""
    sleep: Callable[[float], Awaitable[None]]
    """Wait for some seconds of `monotonic`."""
    move_on_after: Callable[[float | None], AbstractContextManager[CancelScope]]
    """Leave the block after some seconds of `monotonic`; None: never."""
