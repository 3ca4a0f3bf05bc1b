"""Signals: the first one asks a node to stop, the second one ends the process.

A second SIGTERM within SAME_ASK_SECONDS is the first one again: systemd and Slurm send theirs to every process of a
swarm, and `swarm up` passes its own on to its nodes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

import anyio

from swarm.logs import flush_files, get_logger

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
