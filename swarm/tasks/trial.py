"""Trials: how an answer that is code is tried, by two processes.

    nursery ── fork ──▶ candidate     runs the answer, and what the judge asks it to: names of functions, plain values
    server  ── fork ──▶ judge         runs the tests, and asks the candidate; its verdict alone is read by the server
                judge ──request──▶ candidate ──plain values──▶ judge ──verdict──▶ server

The candidate holds no descriptor by which a verdict is given, and what it sends is rebuilt as plain values in the
judge, so that neither comparison nor verdict is done by code that an answer brought. It is forked by a process that
never had the tests (swarm.tasks.nursery). Both have the limits of swarm.tasks.bounded, the audit hook of
swarm.tasks.sandbox (to which running code is allowed here) and the bars of swarm.tasks.bars, without which no server
takes such tasks: the hook is no jail for code that is executed. The one thing that either can wait for is the other's
next message; where both wait, they are ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from swarm.tasks import sandbox
from swarm.tasks.bars import Bars
from swarm.tasks.bounded import PASSED_FD, Emit, Limits, run_bounded, sender
from swarm.tasks.family import Behaviour
from swarm.tasks.frames import read_frame
from swarm.tasks.nursery import MESSAGE_LIMIT, Nursery
from swarm.types import Question

Receive = Callable[[], bytes]
"""Waits for the next message. Raises EOFError where none comes, or one that is too large."""


class Trial(NamedTuple):
    """Holds both parts of a trial, each run in a process of its own."""

    source: str
    """Python code, which the candidate runs."""
    judge: Callable[[Receive, Emit], float]
    """Returns the reward."""


class ExecutingBehaviour(Behaviour, Protocol):
    """Describes a family that has an attribute `executing`: the tasks whose answers are executed."""

    def trial(self, question: Question, answer: str, /) -> Trial:
        """Returns how an answer to a question of such a task is tried; run in the server: nothing is executed here."""


class TrialOutcome(NamedTuple):
    """Holds what came of a trial."""

    frames: list[bytes]
    """One of one reward in a list, as of any group; none if it came to no end."""
    seconds: float
    """Seconds of processor time, the candidate's."""


def run_trial(trial: Trial, nursery: Nursery, bars: Bars, limits: Limits) -> TrialOutcome:
    """Try an answer. A candidate that its limits ended, and that passed nothing, came to no end."""

    def judge(emit: Emit) -> None:
        _confine(bars)
        emit(msgspec.msgpack.encode([trial.judge(receiver(PASSED_FD), sender(PASSED_FD + 1))]))

    with nursery.candidate(limits) as candidate:
        child, write_fd = candidate.process
        with contextlib.suppress(BrokenPipeError):  # it was killed before it read
            sender(write_fd)(trial.source.encode(errors="replace"))
        frames = run_bounded(judge, limits, passed=(child.read_fd, write_fd), talks_to=child)
    ended = candidate.was_ended and frames[:1] == [msgspec.msgpack.encode([0.0])]
    return TrialOutcome([] if ended else frames, candidate.seconds)


def _confine(bars: Bars) -> None:
    bars.close_calls(reading=True)
    sandbox.enter(sandbox.CODE_EVENTS)


def receiver(fd: int) -> Receive:
    """Reads messages from a pipe."""
    return partial(read_frame, fd, MESSAGE_LIMIT)
