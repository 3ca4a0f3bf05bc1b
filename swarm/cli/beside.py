"""Programs that `swarm up` starts beside a swarm, and that no node knows of: those that plugins name.

    start ─▶ lines, passed on ─exit 0──────▶ done
      ▲                       ─any other───▶ said; after a pause again, and in the end never again
      └───────────────────────────┘
    the nodes have ended ─▶ asked to end ─PATIENCE─▶ killed

Nothing that becomes of them stops a swarm.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.abc import Process

from swarm import entry_points
from swarm.children import child_environment, module_command
from swarm.cli.local_swarm import LocalSwarm
from swarm.cli.say import say, warn
from swarm.cli.supervisor import RESTART_PAUSES
from swarm.config import Settings, without_settings

PATIENCE = 150.0
"""Seconds that the programs have to end once the nodes have."""
NICENESS = 10
LONGEST_LINE = 4096
"""Bytes of a line without an end."""


@dataclass(frozen=True)
class ProgramBeside:
    """One of them."""

    title: str
    words: tuple[str, ...]
    """The command that starts it, without `swarm`; a person could type it."""
    settings: Mapping[str, str]
    """Variables that it gets besides, the secret ones too."""

    @property
    def command(self) -> str:
        """Returns what a person would type, secrets left out."""
        return subprocess.list2cmdline(["swarm", *self.words])


def programs_beside(swarm: LocalSwarm) -> list[ProgramBeside]:
    """Returns what the plugins that are on start: each says it by an entry point of its name in `swarm.beside`.

    Raises:
        ConfigError: one of them cannot start: a name is none, or a library is not installed.
    """
    settings, names = swarm.settings, swarm.worker_names
    makers = entry_points.of_plugins(entry_points.BESIDE, settings.plugins)
    return [program for programs in makers for program in programs(settings, names)]


def where(settings: Settings) -> tuple[str, ...]:
    """Returns the flags that name the place and the experiment."""
    return ("--path", settings.place, "--experiment", settings.experiment)


class ProgramsBeside:
    """Owns the programs beside one `swarm up`."""

    def __init__(
        self, programs: Sequence[ProgramBeside], environ: Mapping[str, str], patience: float = PATIENCE
    ) -> None:
        self._programs = programs
        self._environ = dict(environ)
        self._patience = patience
        self._running: dict[str, Process] = {}
        self._ending = anyio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """They run for the block, and for some time longer at most."""
        async with anyio.create_task_group() as waiting:
            async with anyio.create_task_group() as lives:
                for program in self._programs:
                    lives.start_soon(self._live, program)
                yield
                self._ending.set()
                self._signal(signal.SIGTERM)
                waiting.start_soon(self._kill_late)
            waiting.cancel_scope.cancel()

    def insist(self) -> None:
        """End them at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _kill_late(self) -> None:
        """Give them their time, and kill what is left then."""
        if self._running:
            say(f"waiting for: {', '.join(sorted(self._running))} ({self._patience:.0f} s at most)")
        await anyio.sleep(self._patience)
        warn(f"ended before they were done: {', '.join(sorted(self._running))}")
        self.insist()

    async def _live(self, program: ProgramBeside) -> None:
        for pause in (*RESTART_PAUSES, None):
            code = await self._once(program)
            if code == 0 or self._ending.is_set():
                return
            again = f"it starts again in {pause:g} s" if pause is not None else f"by hand: {program.command}"
            warn(f"{program.title} ended with exit code {code}; the swarm goes on, {again}")
            with anyio.move_on_after(pause or 0.0):
                await self._ending.wait()
            if self._ending.is_set():
                return

    async def _once(self, program: ProgramBeside) -> int:
        """One life; its exit code."""
        async with await anyio.open_process(
            module_command("swarm", *program.words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=child_environment({**without_settings(self._environ), **program.settings}),
            start_new_session=True,
        ) as process:
            self._running[program.title] = process
            try:
                give_way(process.pid)
                if self._ending.is_set():
                    process.terminate()
                await _pass_on(program.title, process)
                return await process.wait()
            finally:
                del self._running[program.title]


def give_way(pid: int) -> None:
    """Let the nodes of this machine compute before a process."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)


async def _pass_on(title: str, process: Process) -> None:
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            say(f"{title}: {line.decode('utf-8', 'replace').removeprefix('swarm: ')}")
        rest = rest[-LONGEST_LINE:]
