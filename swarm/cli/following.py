"""Holds what programs share that follow a run from beside it: they are found by `swarm down`, and end when asked to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from swarm.cli.processes import this_process_runs
from swarm.config import Settings
from swarm.systems import missing

HEARD_WITHIN = 0.5
"""Seconds within which somebody who wants a program to end is heard."""
LOOK_EVERY, LOOK_EVERY_PAID = 2.0, 60.0
"""Seconds between two looks at a run; the second where requests are paid for."""


def look_every(settings: Settings) -> float:
    """Returns seconds between two looks at a run of these settings."""
    return LOOK_EVERY_PAID if settings.sparing else LOOK_EVERY


class EndRequest:
    """Tells whether somebody wants a program to end. It takes no lock, which a signal's handler could wait for for
    ever."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Notes that somebody asks this to end."""
        self._is_set = True

    def is_set(self) -> bool:
        """Tells whether anybody does."""
        return self._is_set

    def wait(self, seconds: float) -> None:
        """Waits so many seconds, or until somebody asks this to end."""
        ends = time.monotonic() + seconds
        while not self._is_set and (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, HEARD_WITHIN))


@contextmanager
def following(settings: Settings, role: str, nodes: tuple[str, ...] = ()) -> Iterator[EndRequest]:
    """Makes this process, for the block, one that follows a run: `swarm down` finds it, the first signal asks it to
    end.

    The second signal ends the process at once.
    """
    if not missing():
        this_process_runs(settings, role, nodes)
    asked = EndRequest()

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
