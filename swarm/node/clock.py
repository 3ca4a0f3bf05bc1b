"""Time as an argument, so that tests and simulations bring their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """The two times of a process."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds for durations and deadlines; comparable within this process alone."""
    wall: Callable[[], float] = time.time
    """Unix seconds for what people and peers read."""
