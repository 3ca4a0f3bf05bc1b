"""The nursery: forks the processes that run answers which are code, and has never known a question.

    server ── fork, before it loads any task ──▶ nursery ── fork, one after the other ──▶ candidate
       │ ── limits of the next ────────────────────▶ │
       │ ◀── its process id, both its pipes ──────── │
       │ ── the answer, then what the judge asks ─────────────────────────────────────────▶ │
       │ ── that is all ───────────────────────────▶ │ kills and reaps it
       │ ◀── how it ended, and after what time ───── │

A fork of the server would hold what the server holds: the rows with their tests, the question at hand, the frames in
which both lie. Code that looks through its frames or its memory would find what it is tested by. Here there is nothing
to be found: neither tests nor any other answer was ever in this process or in those before it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import select
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterator

import msgspec

from swarm.tasks import bounded, sandbox
from swarm.tasks.bars import Bars, put_up
from swarm.tasks.bounded import PASSED_FD, BoundedChild, ChildBeside, Emit, Limits, attended, beside
from swarm.tasks.frames import read_frame

Serve = Callable[[Callable[[], bytes], Emit], None]
"""Runs the answer that the first message is, and then what the judge asks."""
MESSAGE_LIMIT = 4 * 2**20
"""Bytes of one message between judge and candidate."""
LAST_BREATH_S = 5.0
"""Seconds within which a child whose pipe is closed has ended, also on a busy machine; one that closed it itself is
killed then."""
_LOG_FD = PASSED_FD + 1
_PID, _ENDED = struct.Struct(">q"), struct.Struct(">d?")
_END = b"e"
_STDERR = 2
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Limits).decode


class CandidateProcess:
    """One candidate."""

    def __init__(self, process: ChildBeside) -> None:
        self.process = process
        self.seconds = 0.0
        """Seconds of processor time, once it has ended."""
        self.was_ended = False
        """Whether one of its limits ended it."""


class Nursery:
    """The server's side."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    @contextlib.contextmanager
    def candidate(self, limits: Limits) -> Iterator[CandidateProcess]:
        """A candidate that waits for its answer, the first message that it reads, and is killed when the block ends.

        Raises EOFError: the nursery is gone.
        """
        _send(self._line, _encode(limits))
        said, ends, _, _ = socket.recv_fds(self._line, _PID.size, 2)
        if len(said) < _PID.size or len(ends) < 2:
            raise EOFError("the process that forks candidates has ended")
        read_fd, write_fd = ends
        found = CandidateProcess(ChildBeside(BoundedChild(_PID.unpack(said)[0], read_fd), write_fd))
        try:
            yield found
        finally:
            for fd in ends:
                os.close(fd)
            self._line.sendall(_END)
            found.seconds, found.was_ended = _ENDED.unpack(_exactly(self._line, _ENDED.size))


@contextlib.contextmanager
def opened() -> Iterator[Nursery]:
    """A nursery. To be forked by a process that holds no question yet, and has one thread."""
    ours, theirs = socket.socketpair()
    with ours, theirs, attended(_work, (theirs.fileno(), _STDERR)):
        theirs.close()
        yield Nursery(ours)


def _work(_emit: Emit) -> None:
    """Works in the nursery until the server is gone."""
    from swarm.tasks.dataset.code.candidate import serve  # it and what answers may import

    os.dup2(_LOG_FD, _STDERR)
    os.close(_LOG_FD)
    warnings.simplefilter("ignore")  # showing one reads source files, which a child may not
    bounded.prepare()
    bars = put_up()
    gc.collect()
    gc.freeze()
    job = functools.partial(_candidate, bars, serve)
    with socket.socket(fileno=PASSED_FD) as line, contextlib.suppress(EOFError):
        while True:
            _raise_one(line, job, _decode(_receive(line)))


def _raise_one(line: socket.socket, job: Callable[[Emit], None], limits: Limits) -> None:
    before = _seconds_of_children()
    with beside(job, limits) as (child, write_fd):
        socket.send_fds(line, [_PID.pack(child.pid)], [child.read_fd, write_fd])
        _exactly(line, len(_END))
        ended = _by_a_signal(child)
    line.sendall(_ENDED.pack(_seconds_of_children() - before, ended))


def _by_a_signal(child: BoundedChild) -> bool:
    """Tells whether a child that nobody has killed yet is dead of a signal: one of its limits'.

    A child that dies closes its pipe before it can be waited for, and the server may have seen that sooner.
    """
    hangs_up = select.poll()
    hangs_up.register(child.read_fd, 0)
    deadline = time.monotonic() + (LAST_BREATH_S if hangs_up.poll(0) else 0)
    while (found := os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)
    return found.si_code in (os.CLD_KILLED, os.CLD_DUMPED)


def _candidate(bars: Bars, serve: Serve, emit: Emit) -> None:
    """Serves, in the candidate."""
    bars.close_calls(reading=True)
    sandbox.enter(sandbox.CODE_EVENTS)
    serve(functools.partial(read_frame, PASSED_FD, MESSAGE_LIMIT), emit)


def _seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _send(line: socket.socket, payload: bytes) -> None:
    line.sendall(_PID.pack(len(payload)) + payload)


def _receive(line: socket.socket) -> bytes:
    return _exactly(line, _PID.unpack(_exactly(line, _PID.size))[0])


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        chunk = line.recv(size - len(found))
        if not chunk:
            raise EOFError("the other side has ended")
        found += chunk
    return found
