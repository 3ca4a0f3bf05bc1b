"""The children of `swarm up`: its nodes, and the programs that plugins start beside them.

    start ─▶ its lines are heard ─▶ how did it end?
      ▲        a node:     exit 0 ─▶ ended;   killed by a signal ─▶ again;   any other code ─▶ failed, the others stop
      │        a program:  exit 0 ─▶ ended;   anything else ─▶ said, and again; in the end it is left to people
      └── again after a pause, so often as RESTART_PAUSES has, unless all are to end

A node that was killed, by the machine for want of memory or by a person, goes on where it was when it starts again; one
that failed by itself would fail again. Nothing that becomes of a program stops a swarm: it is asked to end once the
nodes have, and killed after PATIENCE unless it is a patient one. A program's standard input ends with the supervisor,
however that ends.

A process of several workers ends and starts as one node does. Processes of workers that are several are forked from
one that imports what they need once (fork_server.py).

All are ordinary commands in sessions of their own: a Ctrl-C in the terminal reaches the supervisor alone, which passes
it on.
"""

from __future__ import annotations

import os
import signal as signals
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec

import anyio
from anyio.abc import Process

from swarm import entry_points
from swarm.children import child_environment, module_command
from swarm.cli.fork_server import ForkedProcess, ForkServer
from swarm.cli.say import say, warn
from swarm.config import DAEMONS, Settings, command_line, without_settings

LINES_KEPT = 40
LAST_LINES = 5
"""Of a quiet program that fails."""
LONGEST_LINE = 1 << 14
"""Bytes of a line without an end."""
MOMENT = 1.0
"""Seconds in which several children may say that they have done a round, and a program may end unnoticed."""
SILENCE = 60.0
"""Seconds without a word from any child, after which who listens looks anyway."""
RESTART_PAUSES = (1.0, 4.0, 16.0)
"""Seconds before a child starts again: so often, and then no more."""
STOPPED = (128 + signals.SIGINT, 128 + signals.SIGTERM, -signals.SIGINT, -signals.SIGTERM)
"""Exit codes of a child that was asked to stop: in its own time, or before it listened."""
PATIENCE = 150.0
"""Seconds that the programs have to end once the nodes have."""
NICENESS = 10


async def _started(
    words: Sequence[str],
    environ: Mapping[str, str],
    settings: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    forks: ForkServer | None = None,
) -> AbstractAsyncContextManager[Process | ForkedProcess]:
    """Starts one life of a `swarm` command, with these settings and none of the surrounding ones."""
    its = child_environment({**without_settings(environ), **settings})
    if forks and (forked := await forks.start(words, its)):
        return forked
    return await anyio.open_process(
        module_command("swarm", *words),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=its,
        start_new_session=True,
    )


async def _lines(process: Process | ForkedProcess) -> AsyncIterator[str]:
    """Yields what it says, line by line, to its end."""
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
        rest = rest[-LONGEST_LINE:]
    if rest:
        yield rest.decode("utf-8", "replace")


async def _pause(seconds: float, ending: anyio.Event) -> bool:
    """Waits before another life; tells whether it is still wanted."""
    with anyio.move_on_after(seconds):
        await ending.wait()
    return not ending.is_set()


@dataclass
class DaemonChild:
    node_id: str
    """Name of its node; with a `*` or `{0..1}` in it, of its nodes, as a shell reads it."""
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
    process: Process | ForkedProcess | None = None

    @property
    def command(self) -> str:
        """Returns what a person would type to start the same daemon in a terminal."""
        return " ".join([command_line(self.settings, self.role), *self.arguments])

    def signal(self, number: signals.Signals) -> None:
        """Send a signal if it still runs."""
        if self.process and self.exit_code is None and self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    def __init__(self, environ: Mapping[str, str], forks: ForkServer | None = None) -> None:
        """`forks`: what starts workers; None: they are started as all others are."""
        self._environ = dict(environ)
        self._forks = forks
        self.children: list[DaemonChild] = []
        self._stop_asked = anyio.Event()
        self._said = anyio.Event()
        self.failure: DaemonChild | None = None
        """The child that failed first; one that ends because it was asked to does not fail."""

    @property
    def stopping(self) -> bool:
        """Tells whether all were asked to end."""
        return self._stop_asked.is_set()

    async def run(self, child: DaemonChild) -> None:
        """Start one child and stay with it until it ends for good; cancelling kills it."""
        self.children.append(child)
        for pause in (*RESTART_PAUSES, None):
            exit_code = await self._live(child)
            was_killed = exit_code < 0 and exit_code not in STOPPED  # SIGKILL, a fault in native code, want of memory
            if self.stopping or not was_killed or pause is None:
                break
            name = signals.strsignal(-exit_code)
            say(f"{child.node_id} was killed by signal {-exit_code} ({name}); it starts again in {pause:g} s")
            if not await _pause(pause, self._stop_asked):
                break
        child.exit_code = exit_code
        if exit_code and not (self.stopping and exit_code in STOPPED):
            self.failure = self.failure or child
            self.stop(signals.SIGTERM)

    async def _live(self, child: DaemonChild) -> int:
        """One life of a child; its exit code."""
        words = (*DAEMONS[child.role], *child.arguments)
        forks = self._forks if child.role != "coordinator" else None
        async with await _started(words, self._environ, child.settings, forks=forks) as child.process:
            if self.stopping:
                child.signal(signals.SIGTERM)
            async for line in _lines(child.process):
                child.lines.append(line)
                self._said.set()
            return await child.process.wait()

    async def heard(self) -> None:
        """Waits until a child says something, and a moment longer, for others then may as well; SILENCE at most."""
        self._said = anyio.Event()
        with anyio.move_on_after(SILENCE):
            await self._said.wait()
        await anyio.sleep(MOMENT)

    def stop(self, number: signals.Signals) -> None:
        """Ask every child to finish its step, save and end."""
        self._stop_asked.set()
        for child in self.children:
            child.signal(number)

    def insist(self) -> None:
        for child in self.children:
            child.signal(signals.SIGKILL)


@dataclass(frozen=True)
class ProgramBeside:
    """A program that runs beside a swarm, and that no node knows of."""

    title: str
    words: tuple[str, ...]
    """The command that starts it, without `swarm`; a person could type it."""
    settings: Mapping[str, str]
    """Variables that it gets besides, the secret ones too."""
    quiet: bool = False
    """What it says is shown only where it fails: its last lines."""
    patient: bool = False
    """It has all the time that it needs to end."""

    @property
    def command(self) -> str:
        """Returns what a person would type, secrets left out."""
        return subprocess.list2cmdline(["swarm", *self.words])


def programs_beside(settings: Settings, workers: Sequence[str]) -> list[ProgramBeside]:
    """Returns what the plugins that are on start: each says it by an entry point of its name in `swarm.beside`.

    Args:
        workers: their ids.

    Raises:
        ConfigError: one of them cannot start: a name is none, or a library is not installed.
    """
    makers = entry_points.of_plugins(entry_points.BESIDE, settings.plugins)
    return [program for programs in makers for program in programs(settings, workers)]


def where(settings: Settings) -> tuple[str, ...]:
    return ("--path", settings.place, "--experiment", settings.experiment)


def page_beside(settings: Settings) -> list[ProgramBeside]:
    """Returns the program that serves the page of a run; none where its libraries are not installed."""
    if not all(find_spec(library) for library in ("starlette", "uvicorn")):
        return []
    return [ProgramBeside("page", ("web", "--port", "0", "--until-closed", *where(settings)), {})]


class ProgramsBeside:
    def __init__(
        self, programs: Sequence[ProgramBeside], environ: Mapping[str, str], patience: float = PATIENCE
    ) -> None:
        self._programs = programs
        self._environ = dict(environ)
        self._patience = patience
        self._patient = {program.title for program in programs if program.patient}
        self._running: dict[str, Process | ForkedProcess] = {}
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
                self._signal(signals.SIGTERM, self._running)
                waiting.start_soon(self._kill_late)
            waiting.cancel_scope.cancel()

    def insist(self) -> None:
        self._signal(signals.SIGKILL, self._running)

    def _signal(self, number: signals.Signals, titles: Iterable[str]) -> None:
        for title in titles:
            with suppress(ProcessLookupError):
                self._running[title].send_signal(number)

    async def _kill_late(self) -> None:
        """Give them their time, and kill those of the impatient that are left then."""
        await anyio.sleep(min(MOMENT, self._patience))
        say(f"waiting for: {', '.join(sorted(self._running))}")
        await anyio.sleep(self._patience)
        if late := sorted(self._running.keys() - self._patient):
            warn(f"ended before they were done: {', '.join(late)} ({self._patience:.0f} s were over)")
        self._signal(signals.SIGKILL, late)

    async def _live(self, program: ProgramBeside) -> None:
        for pause in (*RESTART_PAUSES, None):
            code = await self._once(program)
            if code == 0 or self._ending.is_set():
                return
            again = f"it starts again in {pause:g} s" if pause is not None else f"by hand: {program.command}"
            warn(f"{program.title} ended with exit code {code}; the swarm goes on, {again}")
            if not await _pause(pause or 0.0, self._ending):
                return

    async def _once(self, program: ProgramBeside) -> int:
        """One life; its exit code."""
        last = deque[str](maxlen=LAST_LINES)
        async with await _started(program.words, self._environ, program.settings, subprocess.PIPE) as process:
            self._running[program.title] = process
            try:
                give_way(process.pid)
                if self._ending.is_set():
                    process.send_signal(signals.SIGTERM)
                async for line in _lines(process):
                    last.append(f"{program.title}: {line.removeprefix('swarm: ')}")
                    if not program.quiet:
                        say(last[-1])
                code = await process.wait()
            finally:
                del self._running[program.title]
        if program.quiet and code not in (0, *STOPPED):
            say("\n".join(last))
        return code


def give_way(pid: int) -> None:
    """Let the nodes of this machine compute before a process."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
