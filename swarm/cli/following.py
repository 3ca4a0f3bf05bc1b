"""What programs share that follow a run from beside it: they are found by `swarm down`, and end when asked to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from swarm.cli.processes import this_process_runs
from swarm.config import Settings
from swarm.systems import missing

LOOK_EVERY, LOOK_EVERY_PAID = 2.0, 60.0
"""Seconds between two looks at a run; the second where requests are paid for."""


def look_every(settings: Settings) -> float:
    """Seconds between two looks at a run of these settings."""
    return LOOK_EVERY_PAID if settings.sparing else LOOK_EVERY


@contextmanager
def following(settings: Settings, role: str, nodes: tuple[str, ...] = ()) -> Iterator[threading.Event]:
    """For the block this process follows a run: `swarm down` finds it, and the first signal sets the event.

    The second signal ends the process at once.
    """
    if not missing():
        this_process_runs(settings, role, nodes)
    asked = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
