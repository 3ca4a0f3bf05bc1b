"""The processes of an experiment that this user runs on this machine: how they are found, and how they are ended.

    swarm up | node | workers ─▶ {runtime folder}/{experiment's digest}-{pid}, locked as long as the process lives
    swarm down ─▶ each such file ─▶ is it locked by that very process? same start, same command line? ─▶ signals

The runtime folder is private to the user, on this machine and outside of every shared folder: $XDG_RUNTIME_DIR/swarm,
or swarm-{uid} in the system's temporary folder. The kernel tells who holds a lock (F_GETLK), and drops it when that
process ends: neither a file that somebody wrote nor a process id that was given anew names a process.
"""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import struct
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from swarm import forms
from swarm.cli.say import warn
from swarm.config import Settings
from swarm.config.place import is_url
from swarm.node.process.host import process_started_at

UP = "up"
COPY = "copy"
"""Role of who copies into the experiment."""
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
    started_at: float
    """Clock ticks from boot; 0.0 where the system does not tell."""
    command: list[str]
    """Empty where the system does not tell."""
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
    file = _described(settings, role, nodes)
    name = f"{_digest(file.path, file.experiment)}-{file.pid}"
    problems = []
    for path in _runtime_folders():
        try:
            with _opened(path, make=True) as folder:
                _lock_for_good(folder, name, msgspec.json.encode(file))
            return
        except OSError as error:
            problems.append(str(error))
    warn(f"`swarm down` will not find this process: {'; '.join(problems)}")


def _described(settings: Settings, role: str, nodes: Sequence[str]) -> ProcessFile:
    pid = os.getpid()
    return ProcessFile(
        pid=pid,
        started_at=process_started_at(pid),
        command=command_of(pid),
        parent=os.getppid(),
        path=_real(settings),
        experiment=settings.experiment,
        role=role,
        nodes=list(nodes),
    )


def _lock_for_good(folder: int, name: str, data: bytes) -> None:
    """A file that is locked from the moment on that it has its name. Its descriptor is left to the end of the process:
    POSIX locks go when any descriptor of the file is closed."""
    draft = f"{uuid.uuid4().hex}.tmp"
    descriptor = os.open(draft, _FILE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, data)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


class Running:
    """A process that was found and seen to be the one that wrote its file."""

    def __init__(self, file: ProcessFile, descriptor: int, pidfd: int | None, opened: ExitStack) -> None:
        """`descriptor` of its file, `pidfd` of the process (None: the system has none); `opened` closes both."""
        self.file = file
        self.close = opened.close
        self._descriptor = descriptor
        self._pidfd = pidfd

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it still runs. Raises PermissionError: it is not ours any more."""
        if self.ended():
            return
        with suppress(ProcessLookupError):
            if self._pidfd is None:
                os.kill(self.file.pid, number)
            else:
                signal.pidfd_send_signal(self._pidfd, number)

    def ended(self) -> bool:
        """Tells whether it holds its lock no more, which it does to its end."""
        return _holder(self._descriptor) != self.file.pid


@contextmanager
def running(settings: Settings) -> Iterator[list[Running]]:
    """This user's processes of an experiment on this machine, this one left out, for the block."""
    with ExitStack() as opened:
        found = []
        for process in _found(f"{_digest(_real(settings), settings.experiment)}-"):
            opened.callback(process.close)
            found.append(process)
        yield found


def all_running() -> list[ProcessFile]:
    """Returns the processes of all experiments, as they describe themselves."""
    files = []
    for process in _found(""):
        files.append(process.file)
        process.close()
    return files


def _found(beginning: str) -> Iterator[Running]:
    for path in _runtime_folders():
        with suppress(OSError), _opened(path) as folder:
            for name in sorted(os.listdir(folder)):
                pid = name.rpartition("-")[2]
                if name.startswith(beginning) and pid.isdecimal() and int(pid) != os.getpid():
                    with suppress(OSError, msgspec.DecodeError):
                        if process := _verified(folder, name, int(pid)):
                            yield process


def _verified(folder: int, name: str, pid: int) -> Running | None:
    """Returns the process that a file names, if it is that one; a file that nobody holds is removed.

    Raises:
        OSError, msgspec.DecodeError: it is no such file, or the process has just ended.
    """
    with ExitStack() as opened:
        descriptor = os.open(name, _FILE, dir_fd=folder)
        opened.callback(os.close, descriptor)
        if (holder := _holder(descriptor)) is None:
            os.unlink(name, dir_fd=folder)
        if holder != pid:
            return None
        if (pidfd := _pidfd_of(pid)) is not None:
            opened.callback(os.close, pidfd)
        file = forms.decode(os.pread(descriptor, _MOST_BYTES, 0), ProcessFile)
        there = (_holder(descriptor), process_started_at(pid), command_of(pid))  # asked after pidfd holds it
        if there != (file.pid, file.started_at, file.command):
            return None
        return Running(file, descriptor, pidfd, opened.pop_all())


def _holder(descriptor: int) -> int | None:
    """Returns the process that has locked a file; None: no other process has. Raises OSError."""
    form, kind, holder = _FLOCK
    asked = [0] * len(form)
    asked[kind] = fcntl.F_WRLCK
    answer = struct.unpack(form, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(form, *asked)))
    return None if answer[kind] == fcntl.F_UNLCK else int(answer[holder])


def _pidfd_of(pid: int) -> int | None:
    """Opens a pidfd; None where the system has none. Raises ProcessLookupError: the process has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def command_of(pid: int) -> list[str]:
    """Returns the command line of a process; empty where the system does not tell."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return []


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


def _digest(place: str, experiment: str) -> str:
    return hashlib.blake2b(f"{place}\0{experiment}".encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
