"""Runs a job in a forked child with limits on CPU time, wall time, memory and output, and kills it beyond them.

    server ── fork ──▶ child: own session, rlimits, no descriptors but two pipes ── frames ──▶ server
                                                                                 ── stderr, cut ──▶ the server's stderr

The child is killed from three sides: by its CPU limit, by its own interval timer, and by the server, which sends
SIGKILL to its process group when time is up or its output is complete. No `except:` in the child swallows any of them,
and the server's holds whatever the child does to its own.

The child's stderr is a pipe that is read when the child is dead: what does not fit into it is lost, and a writer does
not wait. The first lines go on to the server's stderr.

macOS has no usable RLIMIT_AS and no parent-death signal: there, memory is bounded only by what can be allocated in the
time allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NoReturn

import msgspec

if sys.platform != "win32":  # which runs no nodes; what shows their work imports this all the same
    import fcntl
    import resource

Emit = Callable[[bytes], None]
"""Sends one frame from the child to the server."""

FIRST_CPU_S = 10.0
"""Seconds for the first question of a task and its score, which import and compile besides."""
ALL_FIRST_CPU_S = 60.0
"""Seconds for all that a server prepares, together."""
AGAIN_S = 0.05
"""Seconds of processor time after which a job that swallowed its end is ended again."""

_LENGTH = struct.Struct(">I")
HEADER_BYTES = _LENGTH.size
"""Messages go with their length before them: four bytes, big-endian."""
LARGEST = 2**32
"""Bytes of a message; what a parent says is believed to be as long as that."""
_STDERR_FD = 2
_PIPE_FD = 3
PASSED_FD = 4
"""The first of the descriptors that a child is given beside its own."""
_HIGHEST_FD = 4_096
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork: a child may not import


class Limits(msgspec.Struct, frozen=True):
    """Bounds what one child may use. Honest work takes milliseconds; the defaults leave a factor of a hundred."""

    cpu_s: int = 1
    """CPU seconds."""
    wall_s: float = 10.0
    """Wall-clock seconds; long, because a training step may hold every core."""
    memory_bytes: int = 256 * 2**20
    """Address space on top of what the server already has."""
    output_bytes: int = 16 * 2**20
    """All frames together."""


LOOK_S = 0.1
STILL_LOOKS = 20
"""Two seconds, as dear as an answer that computes until it is killed."""
_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED of Linux, in the clock's number beside the process's."""
STDERR_BYTES = 2_000
STDERR_LINES = 10
"""Lines of what a child says on stderr that are passed on."""


class BoundedChild(NamedTuple):
    """A child that is alive, or not yet reaped."""

    pid: int
    read_fd: int
    """Where what it emits is read."""


def run_bounded(
    job: Callable[[Emit], None], limits: Limits, passed: Sequence[int] = (), talks_to: int | None = None
) -> list[bytes]:
    """Run job(emit) in a fork of this process; returns the frames that it emitted before it ended or was killed.

    A job shows by its last frame that it came to its end. To be called in a process with a single thread only.

    Args:
        passed: descriptors that the child has too, from PASSED_FD on.
        talks_to: a process that it exchanges messages with: it is ended, too, once both do nothing but wait.
    """
    with forked(job, limits, passed) as child:
        return split_frames(_read_until_end(child.read_fd, limits, (child.pid, talks_to) if talks_to else ()))


class _OutOfTime(BaseException):
    """Is raised where a job's processor time is used up."""


@contextlib.contextmanager
def forked(job: Callable[[Emit], None], limits: Limits | None, passed: Sequence[int]) -> Iterator[BoundedChild]:
    """A child that has these descriptors, from PASSED_FD on, and is killed when the block ends. No limits: None."""
    server = os.getpid()
    memory = _address_space(limits.memory_bytes) if limits else None
    (read_fd, write_fd), (said_fd, stderr_fd) = os.pipe(), _lossy_pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(job, (stderr_fd, write_fd, *passed), server, memory, limits)
    os.close(write_fd)
    os.close(stderr_fd)
    try:
        yield BoundedChild(child, read_fd)
    finally:
        os.close(read_fd)
        _kill_group(child)
        _pass_on(said_fd)
        os.close(said_fd)


@contextlib.contextmanager
def at_most(cpu_s: float, why: str = "") -> Iterator[None]:
    """Ends by TimeoutError what needs more processor time, in the main thread of a server that prepares itself.

    A regular expression is interrupted by it, too. Within another such block the one ends it that has less left. What
    is raised inside is no Exception, and again every AGAIN_S, since libraries of mathematics swallow what they can.

    Args:
        why: is said behind the seconds.
    """
    ended = False

    def end(_signal: int, _frame: object) -> None:
        if not ended:
            raise _OutOfTime

    around, _ = signal.getitimer(signal.ITIMER_PROF)
    if 0 < around <= cpu_s:
        yield
        return
    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, cpu_s, AGAIN_S)
    began = time.process_time()
    try:
        yield
    except _OutOfTime:
        ended = True
        raise TimeoutError(f"more than {cpu_s:g} s of processor time{why}") from None
    finally:
        ended = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        if around:
            signal.setitimer(signal.ITIMER_PROF, max(around - (time.process_time() - began), 0.001), AGAIN_S)


def seconds_of_children() -> float:
    """Returns the processor seconds of the children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def prepare() -> None:
    """Open what `run_bounded` reads: to be called by a process that will open nothing any more."""
    _own_memory_fd(os.getpid())


def _lossy_pipe() -> tuple[int, int]:
    """Returns a pipe at either end of which nobody waits."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _pass_on(said_fd: int) -> None:
    """Repeat the beginning of what lies in the pipe on this process's stderr."""
    with contextlib.suppress(BlockingIOError):
        said = os.read(said_fd, STDERR_BYTES)
        lines = said.split(b"\n")[:STDERR_LINES]
        if said:
            os.write(_STDERR_FD, b"\n".join(lines).removesuffix(b"\n") + b"\n")


def _read_until_end(fd: int, limits: Limits, talking: Sequence[int] = ()) -> bytes:
    """Returns all that comes until end of file, the deadline or the output limit, whichever is first; or until
    processes that talk to each other have both been still for a while."""
    deadline = time.monotonic() + limits.wall_s
    received, stillness = bytearray(), _Stillness(talking)
    while len(received) <= limits.output_bytes:
        left = max(0.0, deadline - time.monotonic())
        readable, _, _ = select.select([fd], [], [], min(left, LOOK_S) if talking else left)
        chunk = os.read(fd, 65_536) if readable else b""
        if not chunk and (readable or not left or stillness.is_for_long()):
            break
        received += chunk
    return bytes(received)


class _Stillness:
    """Tells whether processes wait for each other: a machine that is busy gives one that has work some time at last."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._used = self._looks = 0

    def is_for_long(self) -> bool:
        """Tells, asked every LOOK_S, whether none of them was on a processor since STILL_LOOKS looks."""
        used = sum(map(_processor_ns, self._pids))
        self._looks = self._looks + 1 if used == self._used else 0
        self._used = used
        return self._looks >= STILL_LOOKS


def _processor_ns(pid: int) -> int:
    """Processor time of another process; where the system does not tell, one that always grows."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return time.monotonic_ns()


def _kill_group(child: int) -> None:
    """SIGKILL to the child and to its whole group, in case it had no time to make one, and no zombie left."""
    os.kill(child, signal.SIGKILL)  # always there: nobody has reaped it yet
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _be_the_child(
    job: Callable[[Emit], None], kept: Sequence[int], server: int, memory: int | None, limits: Limits | None
) -> NoReturn:
    try:
        _leave_the_server(kept, server)
        if limits:
            _apply(limits, memory)
        job(sender(_PIPE_FD))
    except BaseException as error:  # noqa: BLE001 - the boundary: nothing may return into the server's code
        with contextlib.suppress(OSError):  # nobody has to hear it
            os.write(_STDERR_FD, f"scoring child failed: {error!r:.500}\n".encode(errors="replace"))
    finally:
        os._exit(0)  # no clean-up: buffers and exit handlers belong to the server


def _leave_the_server(kept: Sequence[int], server: int) -> None:
    """Own session, the server's descriptors closed but for some, and death with the server."""
    os.setsid()
    behind = _STDERR_FD + len(kept)
    parked = [fcntl.fcntl(fd, fcntl.F_DUPFD, behind) for fd in kept]  # out of the way of each other's places
    for place, fd in enumerate(parked, _STDERR_FD):
        os.dup2(fd, place)
    os.closerange(behind, _HIGHEST_FD)
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:  # it died before it could be watched
        os._exit(1)


def _apply(limits: Limits, memory: int | None) -> None:
    signal.setitimer(signal.ITIMER_REAL, limits.wall_s)  # SIGALRM keeps its default action, which is to end the process
    _limit(resource.RLIMIT_CPU, limits.cpu_s)
    for nothing in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC):
        _limit(nothing, 0)
    if memory is not None:
        _limit(resource.RLIMIT_AS, memory)


def _limit(which: int, value: int) -> None:
    """Lower one limit for good; a stricter one of the machine's stays."""
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _address_space(beyond: int) -> int | None:
    """Returns bytes of address space of this process, and so many beyond it; None where the system does not tell."""
    fd = _own_memory_fd(os.getpid())
    if fd is None:
        return None
    pages = int(os.pread(fd, 200, 0).split()[0])
    return pages * resource.getpagesize() + beyond


@functools.lru_cache(maxsize=1)
def _own_memory_fd(pid: int) -> int | None:
    """Open for good, as a server closes the file system to itself; of this process, not of the one that forked it."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC) if sys.platform == "linux" else None


def sender(fd: int) -> Emit:
    """Writes frames into a pipe."""

    def send(payload: bytes) -> None:
        left = memoryview(frame(payload))
        while left:
            left = left[os.write(fd, left) :]

    return send


# ── frames ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def frame(payload: bytes) -> bytes:
    """Returns the message as it goes over the stream; at most 4 GiB."""
    return _LENGTH.pack(len(payload)) + payload


def payload_length(header: bytes) -> int:
    """Returns bytes that follow a header of HEADER_BYTES bytes."""
    length: int = _LENGTH.unpack(header)[0]
    return length


def read_frame(fd: int, most: int) -> bytes:
    """Wait for the next message from a pipe. Raises EOFError where none comes, or one of more bytes than that."""
    size = payload_length(_exactly(fd, HEADER_BYTES))
    if size > most:
        raise EOFError(f"a message of {size} bytes")
    return _exactly(fd, size)


def _exactly(fd: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = os.read(fd, size - len(found))
        if not chunk:
            raise EOFError("the other side has ended")
        found += chunk
    return bytes(found)


def split_frames(stream: bytes) -> list[bytes]:
    """Returns the complete messages at the start of the stream; a torn last one is left out."""
    payloads = []
    start = HEADER_BYTES
    while start <= len(stream):
        end = start + payload_length(stream[start - HEADER_BYTES : start])
        if end > len(stream):
            break
        payloads.append(stream[start:end])
        start = end + HEADER_BYTES
    return payloads
