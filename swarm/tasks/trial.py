"""Trials: how an answer that is code is tried, by two children of a scoring server.

    server ── fork ──▶ candidate     runs the answer, and what the judge asks it to: names of functions, plain values
           ── fork ──▶ judge         runs the tests, and asks the candidate; its verdict alone is read by the server
                judge ──request──▶ candidate ──plain values──▶ judge ──verdict──▶ server

The candidate holds no descriptor by which a verdict is given, and what it sends is rebuilt as plain values in the
judge, so that neither comparison nor verdict is done by code that an answer brought. Both children have the limits of
swarm.tasks.bounded, the audit hook of swarm.tasks.sandbox (to which running code is allowed here) and the bars of
swarm.tasks.bars, without which no server takes such tasks: the hook is no jail for code that is executed. The one thing
that either can wait for is the other's next message; where both wait, they are ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from swarm.tasks import sandbox
from swarm.tasks.bars import Bars
from swarm.tasks.bounded import PASSED_FD, Emit, Limits, beside, run_bounded, sender
from swarm.tasks.family import Behaviour
from swarm.tasks.frames import read_frame
from swarm.types import Question

MESSAGE_LIMIT = 4 * 2**20
"""Bytes of one message between judge and candidate."""

Receive = Callable[[], bytes]
"""Waits for the next message. Raises EOFError where none comes, or one that is too large."""


class Trial(NamedTuple):
    """Both parts, each run in a child of its own."""

    candidate: Callable[[Receive, Emit], None]
    judge: Callable[[Receive, Emit], float]
    """Returns the reward."""


class ExecutingBehaviour(Behaviour, Protocol):
    """Of a family that has an attribute `executing`: the tasks whose answers are executed."""

    def trial(self, question: Question, answer: str, /) -> Trial:
        """How an answer to a question of such a task is tried; run in the server: nothing is executed here."""


def run_trial(trial: Trial, bars: Bars, limits: Limits) -> list[bytes]:
    """What the judge found: a frame of one reward in a list, as of any group, or nothing if it came to no end."""

    def candidate(emit: Emit) -> None:
        _confine(bars)
        trial.candidate(receiver(PASSED_FD), emit)

    def judge(emit: Emit) -> None:
        _confine(bars)
        emit(msgspec.msgpack.encode([trial.judge(receiver(PASSED_FD), sender(PASSED_FD + 1))]))

    with beside(candidate, limits) as (child, write_fd):
        return run_bounded(judge, limits, passed=(child.read_fd, write_fd), talks_to=child)


def _confine(bars: Bars) -> None:
    bars.close_calls(reading=True)
    sandbox.enter(sandbox.CODE_EVENTS)


def receiver(fd: int) -> Receive:
    """Reads messages from a pipe."""
    return partial(read_frame, fd, MESSAGE_LIMIT)
