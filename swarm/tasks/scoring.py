"""Scorer: regenerates questions and scores answers in a pool of child processes.

    completions ──extract──▶ answers ──▶ queue ──▶ a free server of the pool ──▶ question, rewards

    waits for   its reply from the queue (see `swarm.tasks.scoring_queue`), which batches what waits together
    unblocks    whoever made the call; the event loop is never blocked

Nothing here imports what makes or scores questions: only the servers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import anyio
import msgspec

from swarm.errors import ProtocolError
from swarm.tasks.answer import extract_answer, has_answer
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring_messages import (
    Made,
    MakeQuestions,
    Refused,
    Reply,
    Request,
    ScoreAnswers,
    Scored,
)
from swarm.tasks.scoring_process import ScoringProcess
from swarm.tasks.scoring_queue import ScoringQueue
from swarm.types import FIRST_FAMILY, Origin, Question

FULL_ANSWER = 0.999
"""A reward of at least this counts as a right answer; less is partial credit or a task's reward for nothing."""

START_TIMEOUT_S = 120.0


class GroupScore(msgspec.Struct, frozen=True):
    """This node's own verdict on one rollout group."""

    question: Question
    """Regenerated from the origin; the publisher's copy is never used."""
    rewards: tuple[float, ...]
    """G rewards in [0, 1]; 0.0 where there is no answer or scoring it went wrong."""
    answered: tuple[bool, ...]
    """G flags: the completion held a closed <answer>...</answer>."""
    killed: int
    """Answers whose scoring had to be killed: a hang, a memory bomb, or an attempt to run code."""
    errors: int
    """Answers at which the task's scorer raised, or gave no number in [0, 1]."""


class Scorer:
    """A pool of scoring servers, alive inside `async with`."""

    def __init__(
        self, processes: int = 1, families: Sequence[str] = (FIRST_FAMILY,), *, limits: Limits | None = None
    ) -> None:
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        self._processes = processes
        self._families = tuple(families)
        self._limits = limits or Limits()
        self._servers: tuple[ScoringProcess, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the servers that are running."""
        return tuple(server.pid for server in self._servers if server.pid is not None)

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        """Generate questions.

        Raises:
            ProtocolError: an unknown family, task or profile, a seed or index out of range.
            ScoringError: no server could be kept alive.
        """
        reply = await self._ask(MakeQuestions(tuple(requests)))
        assert isinstance(reply, Made)
        return list(reply.questions)

    async def score(self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str]) -> GroupScore:
        """Regenerate a question and score the texts of G completions to it.

        Raises:
            ProtocolError: the origin names no question of ours (`unknown_family`, `unknown_task`, `bad_origin`,
                `gym_version`, `generation_failed`), or another one than `claimed_prompt` (`question_mismatch`).
            ScoringError: no server could be kept alive.

        Cheap if called for many groups at the same time: they share a child process.
        """
        answers = tuple(map(extract_answer, completions))
        reply = await self._ask(ScoreAnswers(origin, claimed_prompt, answers))
        assert isinstance(reply, Scored)
        answered = tuple(map(has_answer, completions))
        return GroupScore(reply.question, reply.rewards, answered, reply.killed, reply.errors)

    async def _ask(self, request: Request) -> Reply:
        """The reply; a refusal is raised as ProtocolError."""
        _check_that_it_can_travel(request)
        reply = await self._queue.ask(request)
        if isinstance(reply, Refused):
            raise ProtocolError(reply.reason, reply.detail)
        return reply

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._servers = tuple(
            ScoringProcess(self._tasks, self._families, start_timeout_s=START_TIMEOUT_S) for _ in range(self._processes)
        )
        self._queue = ScoringQueue(self._limits)
        started = False
        try:
            await self._start_all()
            started = True
        finally:
            if not started:
                await self._stop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start_all(self) -> None:
        """All at once: each imports for a second or more."""
        for server in self._servers:
            await server.spawn()
        for server in self._servers:
            await server.wait_until_ready()
            self._tasks.start_soon(self._queue.serve_with, server)

    async def _stop(self) -> None:
        """End and reap the servers. The body's own exception is not shown to the group, which would wrap it."""
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            self._queue.close()


def _check_that_it_can_travel(request: Request) -> None:
    """By itself: what cannot be encoded must not spoil the batch of others. Raises ProtocolError."""
    try:
        msgspec.msgpack.encode(request)
    except (UnicodeEncodeError, OverflowError) as error:
        raise ProtocolError("bad_origin", f"expected Unicode text and 64-bit integers, got {error}") from error
