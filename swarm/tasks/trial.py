"""Trials: how an answer that is code is tried, by two processes, one of which has never known a question.

    server ── fork, before it loads any task ──▶ nursery ── fork, one after the other ──▶ candidate
       │ ── limits of the next ────────────────────▶ │                        runs the answer, and what the judge asks
       │ ◀── its process id, both its pipes ──────── │                        it to: names of functions, plain values
       │ ── the answer ───────────────────────────────────────────────────────────────────▶ │
       │ ── fork ──▶ judge: runs the tests ──request──▶ candidate ──plain values──▶ judge ──verdict──▶ server
       │ ── that is all ───────────────────────────▶ │ kills and reaps it
       │ ◀── how it ended, and after what time ───── │

The candidate holds no descriptor by which a verdict is given, and what it sends is rebuilt as plain values in the
judge, so that neither comparison nor verdict is done by code that an answer brought. A fork of the server would hold
what the server holds: the rows with their tests, the question at hand, the frames in which both lie. Code that looks
through its frames or its memory would find what it is tested by. The nursery has neither tests nor any other answer.

Both have the limits of swarm.tasks.bounded, the audit hook of swarm.tasks.sandbox (to which running code is allowed
here) and the bars of swarm.tasks.bars, without which no server takes such tasks: the hook is no jail for code that is
executed. The one thing that either can wait for is the other's next message; where both wait, they are ended.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import select
import socket
import time
import warnings
from collections.abc import Callable, Iterator

import msgspec

from swarm.tasks import bounded, sandbox
from swarm.tasks.bars import Bars, put_up
from swarm.tasks.bounded import (
    PASSED_FD,
    BoundedChild,
    Emit,
    Limits,
    forked,
    read_frame,
    run_bounded,
    seconds_of_children,
    sender,
)
from swarm.tasks.family import Receive, Trial

Serve = Callable[[Callable[[], bytes], Emit], None]
"""Runs the answer that the first message is, and then what the judge asks."""
MESSAGE_LIMIT = 4 * 2**20
"""Bytes of one message between judge and candidate."""
LAST_BREATH_S = 5.0
"""Seconds within which a child whose pipe is closed has ended, also on a busy machine; one that closed it itself is
killed then."""
_LOG_FD = PASSED_FD + 1
_STDERR = 2
_encode = msgspec.msgpack.Encoder().encode
_decode_limits = msgspec.msgpack.Decoder(Limits).decode
_decode_end = msgspec.msgpack.Decoder(tuple[float, bool]).decode
_PID_BYTES = 8


def run_trial(trial: Trial, nursery: Nursery, bars: Bars, limits: Limits) -> tuple[list[bytes], float]:
    """Try an answer. A candidate that its limits ended, and that passed nothing, came to no end.

    Returns:
        One frame of one reward in a list, as of any group, none if it came to no end; and the candidate's seconds of
        processor time.
    """

    def judge(emit: Emit) -> None:
        _confine(bars)
        emit(msgspec.msgpack.encode([trial.judge(receiver(PASSED_FD), sender(PASSED_FD + 1))]))

    frames, seconds, was_ended = nursery.hear(trial.source, judge, limits)
    ended = was_ended and frames[:1] == [msgspec.msgpack.encode([0.0])]
    return [] if ended else frames, seconds


def _confine(bars: Bars) -> None:
    bars.close_calls(reading=True)
    sandbox.enter(sandbox.CODE_EVENTS)


def receiver(fd: int) -> Receive:
    return functools.partial(read_frame, fd, MESSAGE_LIMIT)


# ── the nursery ─────────────────────────────────────────────────────────────────────────────────────────────────────
class Nursery:
    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def hear(self, source: str, judge: Callable[[Emit], None], limits: Limits) -> tuple[list[bytes], float, bool]:
        """Have a candidate run the source while a judge asks it, by PASSED_FD and the one behind it.

        Returns:
            the judge's frames, the candidate's seconds of processor time, and whether one of its limits ended it.

        Raises:
            EOFError: the nursery is gone.
        """
        send, line = sender(self._line.fileno()), self._line.fileno()
        send(_encode(limits))
        said, ends, _, _ = socket.recv_fds(self._line, _PID_BYTES, 2)
        if len(said) < _PID_BYTES or len(ends) < 2:
            raise EOFError("the process that forks candidates has ended")
        try:
            with contextlib.suppress(BrokenPipeError):  # it was killed before it read
                sender(ends[1])(source.encode(errors="replace"))
            frames = run_bounded(judge, limits, passed=ends, talks_to=int.from_bytes(said))
        finally:
            for fd in ends:
                os.close(fd)
            send(b"")
            seconds, was_ended = _decode_end(read_frame(line, MESSAGE_LIMIT))
        return frames, seconds, was_ended


@contextlib.contextmanager
def opened_nursery() -> Iterator[Nursery]:
    """A nursery. To be forked by a process that holds no question yet, and has one thread."""
    ours, theirs = socket.socketpair()
    with ours, theirs, forked(_work, None, (theirs.fileno(), _STDERR)):
        theirs.close()
        yield Nursery(ours)


def _work(_emit: Emit) -> None:
    """Works in the nursery until the server is gone."""
    from swarm.tasks.dataset.scorers.unit_tests import serve  # it and what answers may import

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
            _raise_one(line, job, _decode_limits(read_frame(PASSED_FD, MESSAGE_LIMIT)))


def _raise_one(line: socket.socket, job: Callable[[Emit], None], limits: Limits) -> None:
    before = seconds_of_children()
    its_end, our_end = os.pipe()
    try:
        with forked(job, limits, (its_end,)) as child:
            os.close(its_end)  # else who writes to a candidate that is dead would wait
            socket.send_fds(line, [child.pid.to_bytes(_PID_BYTES)], [child.read_fd, our_end])
            read_frame(PASSED_FD, MESSAGE_LIMIT)
            ended = _by_a_signal(child)
    finally:
        os.close(our_end)
    sender(PASSED_FD)(_encode((seconds_of_children() - before, ended)))


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
    _confine(bars)
    serve(receiver(PASSED_FD), emit)
