"""Child daemons of `swarm up`: start them, hear what they say, notice how they end.

    spawn ─▶ running ─exit 0─▶ ended
                     ─other──▶ failed: the others are asked to stop, and its last lines are shown
    stop(signal) is passed on once; insist() kills

The children are ordinary daemons in sessions of their own: a Ctrl-C in the terminal reaches the supervisor alone,
which passes it on.
"""

from __future__ import annotations

import signal as signals
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
from anyio.abc import Process

from swarm.config import command_line, without_settings

LINES_KEPT = 40
STOPPED = (128 + signals.SIGINT, 128 + signals.SIGTERM, -signals.SIGINT, -signals.SIGTERM)
"""Exit codes of a child that was asked to stop: in its own time, or before it listened."""


@dataclass
class Child:
    """One daemon."""

    node_id: str
    """Of its node; with a `*` in it, of its nodes."""
    role: str
    """Its module in `services`."""
    settings: dict[str, str]
    """Environment variables that this daemon gets on top of the supervisor's own."""
    arguments: tuple[str, ...] = ()
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    """The last that it said on its terminal."""
    exit_code: int | None = None
    process: Process | None = None

    @property
    def command(self) -> str:
        """What a person would type to start the same daemon in a terminal."""
        return " ".join([command_line(self.settings, self.role), *self.arguments])

    def signal(self, number: signals.Signals) -> None:
        """Send a signal if it still runs."""
        if self.process and self.exit_code is None and self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    """Owns the children of one `swarm up`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self.children: list[Child] = []
        self.stopping = False
        self.failure: Child | None = None
        """The child that failed first; one that ends because it was asked to does not fail."""

    async def run(self, child: Child) -> None:
        """Start one child and stay with it until it ends; cancelling kills it."""
        self.children.append(child)
        environment = {**without_settings(self._environ), **child.settings}
        async with await anyio.open_process(
            [sys.executable, "-m", f"services.{child.role}", *child.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as child.process:
            if self.stopping:
                child.signal(signals.SIGTERM)
            await self._listen(child)
            child.exit_code = await child.process.wait()
        if child.exit_code and not (self.stopping and child.exit_code in STOPPED):
            self.failure = self.failure or child
            self.stop(signals.SIGTERM)

    async def _listen(self, child: Child) -> None:
        assert child.process is not None
        assert child.process.stdout is not None
        rest = b""
        async for chunk in child.process.stdout:
            *whole, rest = (rest + chunk).split(b"\n")
            child.lines.extend(line.decode("utf-8", "replace") for line in whole)
        if rest:
            child.lines.append(rest.decode("utf-8", "replace"))

    def stop(self, number: signals.Signals) -> None:
        """Ask every child to finish its step, save and end."""
        self.stopping = True
        for child in self.children:
            child.signal(number)

    def insist(self) -> None:
        """End every child at once."""
        for child in self.children:
            child.signal(signals.SIGKILL)
