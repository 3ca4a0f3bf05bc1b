"""Signals: the first asks, the second insists."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import anyio

from swarm.logs import get_logger

logger = get_logger(__name__)

INTERRUPTED, TERMINATED = 130, 143
_EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: TERMINATED}


def log_the_end() -> None:
    """What a node does last when somebody insists."""
    logger.warning("node.killed")


async def on_signals(stop: Callable[[int], None], insist: Callable[[], None] = log_the_end) -> None:
    """Call `stop(exit_code)` at the first signal; at the second call `insist` and end the process at once.

    Runs until cancelled.
    """
    asked = False
    with anyio.open_signal_receiver(*_EXIT_CODES) as signals:
        async for number in signals:
            code = _EXIT_CODES[number]
            if asked:
                insist()
                os._exit(code)
            asked = True
            stop(code)
