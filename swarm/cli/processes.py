"""The processes of an experiment that this user runs on this machine: how they are found, and how they are ended.

    swarm up | node | workers ─▶ {runtime folder}/{experiment's digest}-{pid}, locked as long as the process lives
    swarm down ─▶ each such file ─▶ is it locked by the very process that its name says? ─▶ signals

Whoever starts nodes looks first, for its nodes would have to end at once, since their ids are taken:

    processes that this user runs here ─▶ known for sure
    registrations of the same ids      ─▶ believed when their heartbeat moves while it is watched

Programs that follow a run from beside it are found likewise, and end when they are asked to.

The runtime folder is private to the user, on this machine and outside of every shared folder: $XDG_RUNTIME_DIR/swarm,
or swarm-{uid} in the system's temporary folder. The kernel tells who holds a lock (F_GETLK), and drops it when that
process ends: neither a file that somebody wrote nor a process id that was given anew names a process.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import stat
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import Parameter

from swarm import forms
from swarm.cli.flags import CommonFlags, settings_to_look
from swarm.cli.say import say, warn
from swarm.config import Settings
from swarm.config.place import is_url
from swarm.errors import ConfigError, ExperimentError
from swarm.node.process.host import this_process
from swarm.records.files import read_peer, read_peers
from swarm.records.liveness import STOPPED, is_alive, process_runs
from swarm.spelling import named
from swarm.store.run import Run
from swarm.systems import missing, require_for
from swarm.views.text import shorten
from swarm.wire.messages import PeerFile

UP = "up"
COPY = "copy"
"""Role of who copies into the experiment."""
MOST_OTHERS = 3
"""Other swarms that are named where the one that was meant is not there."""
GRACE = 60.0
"""Seconds that a process has to end once it is asked to."""
KILLED_WITHIN = 10.0
"""Seconds within which the kernel ends a process that was killed."""
POLL_SECONDS = 0.05
"""Between two looks at whether a process has ended, or a heartbeat moved."""
HEARD_WITHIN = 0.5
"""Seconds within which somebody who wants a program to end is heard."""
LOOK_EVERY, LOOK_EVERY_PAID = 2.0, 60.0
"""Seconds between two looks at a run; the second where requests are paid for."""
BEATS = 3
"""Heartbeat intervals for which a registration is watched, as a node that finds its id taken does."""
MOST_LOOKS = 60
"""Looks at one registration while it is watched: in a bucket each is paid for."""
LONG_SECONDS = 5.0
"""Who is to wait for longer is told why."""
_MOST_BYTES = 1 << 20
_FLOCK = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi", 0, 4)
"""struct flock of fcntl(2), and which of its fields are the kind of lock and the process id."""
if sys.platform != "win32":  # which runs no nodes; its commands import this all the same
    import fcntl

    _FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    _FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProcessFile(msgspec.Struct, frozen=True):
    """Holds what a process says of itself."""

    pid: int
    parent: int
    path: str
    """The shared folder."""
    experiment: str
    role: str
    """UP, COPY, or that of a node."""
    nodes: list[str]
    """Those in this process, or started by it, as far as they were given names."""

    @property
    def title(self) -> str:
        """Returns the process as people are told of it."""
        return f"{'swarm up' if self.role == UP else ', '.join(self.nodes) or self.role} (process {self.pid})"


def this_process_runs(settings: Settings, role: str, nodes: Sequence[str]) -> None:
    """Write this process down, locked until it ends. Where that cannot be, it says so and nothing else changes."""
    file = ProcessFile(os.getpid(), os.getppid(), _real(settings), settings.experiment, role, list(nodes))
    problems = []
    for path in _runtime_folders():
        try:
            with _opened(path, make=True) as folder:
                _lock_for_good(folder, f"{_digest(settings)}-{file.pid}", msgspec.json.encode(file))
            return
        except OSError as error:
            problems.append(str(error))
    warn(f"`swarm down` will not find this process: {'; '.join(problems)}")


def _lock_for_good(folder: int, name: str, data: bytes) -> None:
    """A file that is locked from the moment on that it has its name. Its descriptor is left to the end of the process:
    POSIX locks go when any descriptor of the file is closed."""
    draft = f"{uuid.uuid4().hex}.tmp"
    descriptor = os.open(draft, _FILE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, data)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


class Running(NamedTuple):
    """A process that was found and seen to be the one that wrote its file."""

    file: ProcessFile
    descriptor: int
    """Of its file."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it still runs. Raises PermissionError: it is not ours any more."""
        if not self.ended():
            with suppress(ProcessLookupError):
                os.kill(self.file.pid, number)

    def ended(self) -> bool:
        """Tells whether it holds its lock no more, which it does to its end."""
        return _holder(self.descriptor) != self.file.pid


@contextmanager
def running(settings: Settings | None) -> Iterator[list[Running]]:
    """This user's processes of an experiment on this machine, None: of all, for the block; this one is left out."""
    beginning = f"{_digest(settings)}-" if settings else ""
    with ExitStack() as opened:
        yield [process for path in _runtime_folders() for process in _found(path, beginning, opened)]


def _found(path: Path, beginning: str, opened: ExitStack) -> Iterator[Running]:
    with suppress(OSError), _opened(path) as folder:
        for name in sorted(os.listdir(folder)):
            pid = name.rpartition("-")[2]
            if name.startswith(beginning) and pid.isdecimal() and int(pid) != os.getpid():
                with suppress(OSError, msgspec.DecodeError):  # it is no such file, or the process has just ended
                    descriptor = os.open(name, _FILE, dir_fd=folder)
                    opened.callback(os.close, descriptor)
                    if (holder := _holder(descriptor)) is None:
                        os.unlink(name, dir_fd=folder)
                    file = forms.decode(os.pread(descriptor, _MOST_BYTES, 0), ProcessFile)
                    if holder == int(pid) == file.pid:
                        yield Running(file, descriptor)


def _holder(descriptor: int) -> int | None:
    """Returns the process that has locked a file; None: no other process has. Raises OSError."""
    form, kind, holder = _FLOCK
    asked = [0] * len(form)
    asked[kind] = fcntl.F_WRLCK
    answer = struct.unpack(form, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(form, *asked)))
    return None if answer[kind] == fcntl.F_UNLCK else int(answer[holder])


def _runtime_folders() -> list[Path]:
    """Returns the folders where processes are written down, the first for new ones: `down` may be typed in a session
    that has no XDG_RUNTIME_DIR."""
    of_session = os.environ.get("XDG_RUNTIME_DIR", "")
    fallback = Path(tempfile.gettempdir()) / f"swarm-{os.geteuid()}"
    return [Path(of_session) / "swarm", fallback] if os.path.isabs(of_session) else [fallback]


@contextmanager
def _opened(path: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a runtime folder, seen to be this user's and nobody else's.

    Raises:
        OSError: it is not there or cannot be made.
        PermissionError: others may write in it or put another in its place.
    """
    if make:
        with suppress(FileExistsError):
            path.mkdir(0o700)
    above = os.stat(path.parent)
    if above.st_uid not in (0, os.geteuid()) or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
        raise PermissionError(
            f"{path.parent} lets others replace what is in it; set XDG_RUNTIME_DIR to a private folder"
        )
    descriptor = os.open(path, _FOLDER)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(
                f"{path} is not this user's alone: expected its owner {os.geteuid()} and mode 700, got {found.st_uid} "
                f"and {stat.S_IMODE(found.st_mode):o}; remove it, or set XDG_RUNTIME_DIR to a private folder"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _real(settings: Settings) -> str:
    return settings.place if is_url(settings.place) else os.path.realpath(settings.place)


def _digest(settings: Settings) -> str:
    text = f"{_real(settings)}\0{settings.experiment}"
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def down(
    *,
    timeout: Annotated[float, Parameter(help="Seconds for a node to finish its step and save.")] = GRACE,
    experiment_flags: CommonFlags | None = None,
) -> int:
    """End the nodes of an experiment that this user runs on this machine, those whose `swarm up` was killed too.

    They are asked once, as by Ctrl-C, and killed after the timeout. Exit 1 if one is still there.
    """
    require_for("`swarm down`")
    if not 0 <= timeout < float("inf"):
        raise ConfigError(f"--timeout: expected seconds from 0 on, got {timeout}")
    settings = settings_to_look(experiment_flags)
    any_found = left = False
    while not left:  # again: a node may have started while its `swarm up` was asked
        with running(settings) as found:
            if not found:
                break
            any_found, left = True, not end(found, timeout)
    if not any_found:
        say(_nothing(settings))
    return int(left)


def end(found: Sequence[Running], timeout: float) -> bool:
    """Ask, wait, insist; whether all of them have ended."""
    for process in _to_be_asked(found):
        say(f"ending {process.file.title}")
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)  # a stopped one hears nothing
    late = _wait(found, timeout)
    for process in sorted(late, key=lambda process: process.file.role != UP):  # first who would start others again
        say(f"killing {process.file.title}: it did not end within {timeout:g} s")
        process.signal(signal.SIGKILL)
    left = _wait(late, KILLED_WITHIN)
    for process in left:
        say(f"{process.file.title} is still there")
    return not left


def _to_be_asked(found: Sequence[Running]) -> list[Running]:
    """Returns each but the nodes of a `swarm up` that is there: it passes the signal on, and a second one ends them at
    once."""
    ups = {process.file.pid for process in found if process.file.role == UP}
    return [process for process in found if process.file.parent not in ups]


def _wait(processes: Sequence[Running], seconds: float) -> list[Running]:
    """Waits for some processes, and returns those that have not ended by then."""
    deadline = time.monotonic() + seconds
    left = list(processes)
    while left := [process for process in left if not process.ended()]:
        if time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
    return left


def _nothing(settings: Settings) -> str:
    """Returns the message for somebody who named a swarm that is not there."""
    with running(None) as found:
        others = {f"--path {process.file.path} --experiment {process.file.experiment}" for process in found}
    said = f"no process of {settings.experiment} in {settings.place} runs here as this user"
    return f"{said}; others of yours go on: {named(sorted(others), MOST_OTHERS)}" if others else said


def look_every(settings: Settings) -> float:
    """Returns seconds between two looks at a run of these settings."""
    return LOOK_EVERY_PAID if settings.sparing else LOOK_EVERY


class EndRequest:
    """Tells whether somebody wants a program to end. It takes no lock, which a signal's handler could wait for for
    ever."""

    def __init__(self) -> None:
        self.exit_code = 0
        """What the program ends with: 128 and the number of the signal, 0 where nobody asked."""

    def set(self, number: int = signal.SIGTERM) -> None:
        """Notes that somebody asks this to end."""
        self.exit_code = 128 + number

    def is_set(self) -> bool:
        """Tells whether anybody does."""
        return self.exit_code > 0

    def wait(self, seconds: float) -> None:
        """Waits so many seconds, or until somebody asks this to end."""
        ends = time.monotonic() + seconds
        while not self.is_set() and (left := ends - time.monotonic()) > 0:
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
        asked.set(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def refuse_live(settings: Settings, run: Run, names: Sequence[str]) -> None:
    """See that no other `swarm up`, no node of these names, and nobody who copies into it, is running in an experiment.

    Raises:
        ExperimentError: there is one; says what to do.
    """
    where = shlex.join(["--path", settings.place, "--experiment", settings.experiment])
    others = (
        "choose another --experiment for a new one, or join it with a node of another name: "
        f"`swarm node {where} --node-id NAME`"
    )
    with running(settings) as found:
        files = [process.file for process in found]
        taken = [file.title for file in files if file.role in (UP, COPY) or {*file.nodes} & {*names}]
    if taken:
        raise ExperimentError(
            f"{run.store.describe()} is running: {', '.join(taken)}. End it with `swarm down {where}`, {others}"
        )
    here, wall, timeout = this_process(), time.time(), settings.cadence.liveness_timeout
    peers = {name: peer for name in names if (peer := read_peer(run, name)) and is_alive(peer, wall, timeout, here)}
    if beating := first_moved(run, peers, BEATS * settings.cadence.heartbeat_interval):
        raise ExperimentError(
            f"{run.store.describe()} is running: {', '.join(beating)} beat in it, of another machine or user. Stop "
            f"them there (`swarm down`), {others}"
        )


def beating_elsewhere(run: Run, settings: Settings) -> list[str]:
    """Returns nodes of other machines whose heartbeat moves while it is watched, whatever the clock of theirs says.

    An hour between two clocks makes a live node look silent for an hour, and of a dead one nothing moves.
    """
    here = this_process()
    peers = [peer for peer in read_peers(run) if peer.status != STOPPED and process_runs(peer, here) is None]
    return first_moved(run, {peer.peer_id: peer for peer in peers}, BEATS * settings.cadence.heartbeat_interval)


def first_moved(run: Run, before: Mapping[str, PeerFile], seconds: float) -> list[str]:
    """Watches registrations for so many seconds at most, and returns the names of the first whose heartbeat moves."""
    if before and seconds > LONG_SECONDS:
        one = shorten(min(before), 24)
        say(f"watching for {seconds:.0f} s whether {len(before)} nodes of other machines beat, such as {one}")
    deadline = time.monotonic() + seconds
    while before and time.monotonic() < deadline:
        time.sleep(max(POLL_SECONDS, seconds / MOST_LOOKS))
        if moved := [name for name, peer in before.items() if _moved(peer, read_peer(run, name))]:
            return moved
    return []


def _moved(before: PeerFile, now: PeerFile | None) -> bool:
    return now is not None and (now.incarnation, now.beat) != (before.incarnation, before.beat)
