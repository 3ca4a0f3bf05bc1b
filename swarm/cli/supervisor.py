"""Child daemons of `swarm up`: start them, hear what they say, notice how they end.

    spawn ─▶ running ─exit 0───────────────▶ ended
      ▲              ─killed by a signal──┬──▶ failed, if that happened too often
      └───after a pause───────────────────┘
                     ─other exit codes───────▶ failed: the others are asked to stop, and its last lines are shown
    stop(signal) is passed on once; insist() kills

A daemon that was killed, by the machine for want of memory or by a person, goes on where it was when it starts again;
one that failed by itself would fail again.

The children are ordinary daemons in sessions of their own: a Ctrl-C in the terminal reaches the supervisor alone,
which passes it on.
"""

from __future__ import annotations

import signal as signals
import subprocess
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
from anyio.abc import Process

from swarm.children import child_environment, module_command
from swarm.cli.say import say
from swarm.config import DAEMONS, command_line, without_settings

LINES_KEPT = 40
MOMENT = 1.0
"""Seconds in which several children may say that they have done a round."""
SILENCE = 60.0
"""Seconds without a word from any child, after which who listens looks anyway."""
RESTART_PAUSES = (1.0, 4.0, 16.0)
"""Seconds before a child that was killed starts again: so often, and then no more."""
STOPPED = (128 + signals.SIGINT, 128 + signals.SIGTERM, -signals.SIGINT, -signals.SIGTERM)
"""Exit codes of a child that was asked to stop: in its own time, or before it listened."""


@dataclass
class DaemonChild:
    """One daemon."""

    node_id: str
    """Name of its node; with a `*` in it, of its nodes."""
    role: str
    """Which of DAEMONS it is."""
    settings: dict[str, str]
    """Environment variables that this daemon gets on top of the supervisor's own."""
    arguments: tuple[str, ...] = ()
    about: str = ""
    """What it does, in a few words."""
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    """The last that it said on its terminal."""
    exit_code: int | None = None
    process: Process | None = None

    @property
    def command(self) -> str:
        """Returns what a person would type to start the same daemon in a terminal."""
        return " ".join([command_line(self.settings, self.role), *self.arguments])

    def signal(self, number: signals.Signals) -> None:
        """Send a signal if it still runs."""
        if self.process and self.exit_code is None and self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    """Owns the children of one `swarm up`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self.children: list[DaemonChild] = []
        self.stopping = False
        self._stop_asked = anyio.Event()
        self._said = anyio.Event()
        self.failure: DaemonChild | None = None
        """The child that failed first; one that ends because it was asked to does not fail."""

    async def run(self, child: DaemonChild) -> None:
        """Start one child and stay with it until it ends for good; cancelling kills it."""
        self.children.append(child)
        exit_code = await self._live(child)
        for pause in RESTART_PAUSES:
            if not (_was_killed(exit_code) and await self._still_wanted_after(pause, child, exit_code)):
                break
            exit_code = await self._live(child)
        child.exit_code = exit_code
        if exit_code and not (self.stopping and exit_code in STOPPED):
            self.failure = self.failure or child
            self.stop(signals.SIGTERM)

    async def _still_wanted_after(self, pause: float, child: DaemonChild, exit_code: int) -> bool:
        if self.stopping:
            return False
        name = signals.strsignal(-exit_code)
        say(f"{child.node_id} was killed by signal {-exit_code} ({name}); it starts again in {pause:g} s")
        with anyio.move_on_after(pause):
            await self._stop_asked.wait()
        return not self.stopping

    async def _live(self, child: DaemonChild) -> int:
        """One life of a child; its exit code."""
        environment = child_environment({**without_settings(self._environ), **child.settings})
        async with await anyio.open_process(
            module_command("swarm", *DAEMONS[child.role], *child.arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as child.process:
            if self.stopping:
                child.signal(signals.SIGTERM)
            await self._listen(child)
            return await child.process.wait()

    async def _listen(self, child: DaemonChild) -> None:
        assert child.process is not None
        assert child.process.stdout is not None
        rest = b""
        async for chunk in child.process.stdout:
            self._said.set()
            *whole, rest = (rest + chunk).split(b"\n")
            child.lines.extend(line.decode("utf-8", "replace") for line in whole)
        if rest:
            child.lines.append(rest.decode("utf-8", "replace"))

    async def heard(self) -> None:
        """Waits until a child says something, and a moment longer, for others then may as well; SILENCE at most."""
        self._said = anyio.Event()
        with anyio.move_on_after(SILENCE):
            await self._said.wait()
        await anyio.sleep(MOMENT)

    def stop(self, number: signals.Signals) -> None:
        """Ask every child to finish its step, save and end."""
        self.stopping = True
        self._stop_asked.set()
        for child in self.children:
            child.signal(number)

    def insist(self) -> None:
        """End every child at once."""
        for child in self.children:
            child.signal(signals.SIGKILL)


def _was_killed(exit_code: int) -> bool:
    """Tells whether a signal that does not ask ended it: SIGKILL, a fault in native code, the kernel for want of
    memory."""
    return exit_code < 0 and exit_code not in STOPPED
