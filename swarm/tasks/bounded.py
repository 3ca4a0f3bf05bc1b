"""Runs a job in a forked child with limits on CPU time, wall time, memory and output, and kills it beyond them.

    server ── fork ──▶ child: own session, rlimits, no descriptors but one pipe ── frames ──▶ server

The child is killed from three sides: by its CPU limit, by its own interval timer, and by the server, which sends
SIGKILL to its process group when time is up or its output is complete. No `except:` in the child swallows any of them.

macOS has no usable RLIMIT_AS and no parent-death signal: there, memory is bounded only by what can be allocated in the
time allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from swarm.tasks.frames import frame, split_frames

Emit = Callable[[bytes], None]
"""Sends one frame from the child to the server."""

_PIPE_FD = 3
_HIGHEST_FD = 4_096
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork: a child may not import


class Limits(msgspec.Struct, frozen=True):
    """What one child may use. Honest work takes milliseconds; the defaults leave a factor of a hundred."""

    cpu_s: int = 1
    """CPU seconds."""
    wall_s: float = 10.0
    """Wall-clock seconds; long, because a training step may hold every core."""
    memory_bytes: int = 256 * 2**20
    """Address space on top of what the server already has."""
    output_bytes: int = 16 * 2**20
    """All frames together."""


def run_bounded(job: Callable[[Emit], None], limits: Limits) -> list[bytes]:
    """Run job(emit) in a fork of this process; returns the frames that it emitted before it ended or was killed.

    A job shows by its last frame that it came to its end. To be called in a process with a single thread only.
    """
    server, memory = os.getpid(), _address_space(limits)
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(job, write_fd, server, memory, limits)
    os.close(write_fd)
    try:
        return split_frames(_read_until_end(read_fd, limits))
    finally:
        os.close(read_fd)
        _kill_group(child)


def _read_until_end(fd: int, limits: Limits) -> bytes:
    """All that comes until end of file, the deadline or the output limit, whichever is first."""
    deadline = time.monotonic() + limits.wall_s
    received = bytearray()
    while len(received) <= limits.output_bytes:
        readable, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(fd, 65_536) if readable else b""
        if not chunk:
            break
        received += chunk
    return bytes(received)


def _kill_group(child: int) -> None:
    """SIGKILL to the child and to its whole group, in case it had no time to make one, and no zombie left."""
    os.kill(child, signal.SIGKILL)  # always there: nobody has reaped it yet
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _be_the_child(
    job: Callable[[Emit], None], write_fd: int, server: int, memory: int | None, limits: Limits
) -> NoReturn:
    try:
        _leave_the_server(write_fd, server)
        _apply(limits, memory)
        job(_emit)
    except BaseException as error:  # noqa: BLE001 - the boundary: nothing may return into the server's code
        os.write(2, f"scoring child failed: {error!r:.500}\n".encode(errors="replace"))
    finally:
        os._exit(0)  # no clean-up: buffers and exit handlers belong to the server


def _leave_the_server(write_fd: int, server: int) -> None:
    """Own session, the server's descriptors closed, and death with the server."""
    os.setsid()
    os.dup2(write_fd, _PIPE_FD)
    os.closerange(_PIPE_FD + 1, _HIGHEST_FD)
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


def _address_space(limits: Limits) -> int | None:
    """Bytes of address space that the child may have in all, None where the system does not tell."""
    if sys.platform != "linux":
        return None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize() + limits.memory_bytes


def _emit(payload: bytes) -> None:
    left = memoryview(frame(payload))
    while left:
        left = left[os.write(_PIPE_FD, left) :]
