"""Scorer: regenerates questions and scores answers in a pool of child processes.

    completions ──extract──▶ answers ──▶ queue ──▶ a free server of the pool ──▶ question, rewards

Requests to the servers wait in a queue, first come, first served; what waits together is batched:

    ask ─▶ waiting ──up to BATCH_LIMIT──▶ one message, one child ──▶ a reply to each
                                                   └──Unfinished──▶ once more, each alone

    waits for   a free server (first come, first served), then its replies
    unblocks    everyone whose request was in the batch, each with its own reply; the event loop is never blocked

A fork costs more than the scoring of a group, hence the batches. A request that nobody waits for any longer is left
out if it has not been sent; if it has, the others' replies are not disturbed.

Nothing here imports what makes or scores questions: only the servers do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import anyio
import msgspec

from swarm.errors import ProtocolError, ScoringError
from swarm.logs import get_logger
from swarm.tasks.answer import extract_answer, has_answer
from swarm.tasks.bounded import Limits
from swarm.tasks.conversation import Conversation, Conversing, conversation_of, said
from swarm.tasks.definitions import Parameters
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.scoring_messages import (
    AskReplies,
    Made,
    MakeQuestion,
    RefusedRequest,
    Replied,
    Reply,
    Request,
    RequestBatch,
    ScoreAnswers,
    Setup,
    Unfinished,
)
from swarm.tasks.scoring_messages import GroupScore as GroupScore
from swarm.tasks.scoring_process import ScoringProcess, ServerLostError
from swarm.types import FIRST_FAMILY, Completion, Origin, Question, full_task

FULL_ANSWER = 0.999
"""A reward of at least this counts as a right answer; less is partial credit or a task's reward for nothing."""

START_TIMEOUT_S = 120.0
logger = get_logger(__name__)
_decode_replies: Callable[[bytes], list[Reply | Unfinished]] = msgspec.msgpack.Decoder(list[Reply | Unfinished]).decode

BATCH_LIMIT = 16
"""Requests of one message. Sixteen honest groups of 8 take 15 ms of one child's CPU second."""
REPLY_SLACK_S = 10.0
"""Added to the time that the server itself may take."""


class Scorer:
    """A pool of scoring servers, alive inside `async with`."""

    def __init__(
        self,
        processes: int = 1,
        families: Sequence[str] = (FIRST_FAMILY,),
        tasks: Mapping[str, Parameters] = NO_TASKS,
        *,
        limits: Limits | None = None,
    ) -> None:
        """Make a pool that has not started; families and tasks as of swarm.tasks.registry.Families."""
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        self._processes = processes
        self._setup = Setup.of(families, tasks)
        self._limits = limits or Limits()
        self._servers: tuple[ScoringProcess, ...] = ()
        self._starting = anyio.Lock()
        self._started = False

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(server.pid for server in self._servers if server.pid is not None)

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        """Generate questions.

        Raises:
            ProtocolError: an unknown family, task or profile, a seed or index out of range, or a question that cannot
                be made within the limits (`generation_failed`).
            ScoringError: no server could be kept alive.
        """
        replies = await self._ask([MakeQuestion(one) for one in requests])  # what one child cannot do, several do
        return [reply.question for reply in replies if isinstance(reply, Made)]

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        """Regenerate a question and score G completions to it: texts, or conversations in which it replied.

        Raises:
            ProtocolError: the origin names no question of ours (`unknown_family`, `unknown_task`, `bad_origin`,
                `gym_version`, `generation_failed`), or another one than `claimed_prompt` (`question_mismatch`); or a
                conversation is none that it would have (`reply_mismatch`).
            ScoringError: no server could be kept alive.

        Cheap if called for many groups at the same time: they share a child process.
        """
        await self.start()
        how = self.conversing(origin)
        whole = [Completion(one, finished=True) if isinstance(one, str) else one for one in completions]
        (reply,) = await self._ask([ScoreAnswers(origin, claimed_prompt, tuple(_to_score(one, how) for one in whole))])
        assert isinstance(reply, GroupScore)
        return msgspec.structs.replace(reply, answered=tuple(_answered(one, how) for one in whole))

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        """Returns what the environment of a question says after these turns of a model. Raises as `score`."""
        await self.start()
        if (how := self.conversing(origin)) is None:
            return Replied((None,) * len(conversations))
        asked = tuple(tuple(said(text, how.reads) for text in texts) for texts in conversations)
        (reply,) = await self._ask([AskReplies(origin, asked)])
        assert isinstance(reply, Replied)
        return reply

    def conversing(self, origin: Origin) -> Conversing | None:
        """Returns how the task of a question converses; None: it does not. Known once the servers have started."""
        return self._servers[0].conversing.get(full_task(origin.family, origin.task))

    async def _ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Returns the replies; the first refusal is raised as ProtocolError."""
        for request in requests:
            _check_that_it_can_travel(request)
        await self.start()
        replies = await self._queue.ask(requests)
        for reply in replies:
            if isinstance(reply, RefusedRequest):
                raise ProtocolError(reply.reason, reply.detail, killed=reply.killed, slow=reply.slow)
        return replies

    async def __aenter__(self) -> Self:
        await self.enter()
        try:
            await self.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def enter(self) -> None:
        """Enter the pool without its servers, for who has something to do before `start`; `__aexit__` leaves it."""
        self._tasks = await anyio.create_task_group().__aenter__()
        self._servers = tuple(
            ScoringProcess(self._tasks, self._setup, start_timeout_s=START_TIMEOUT_S) for _ in range(self._processes)
        )
        self._queue = ScoringQueue(self._limits)

    async def start(self) -> None:
        """Start the servers, once, whoever asks for it. Raises ScoringError: one does not start."""
        if self._started:  # without the lock: it would let those go on one by one who ask together
            return
        async with self._starting:
            starting = () if self._started else self._servers
            for server in starting:  # all at once: each imports for a second or more
                await server.spawn()
            for server in starting:
                await server.wait_until_ready()
                self._tasks.start_soon(self._queue.serve_with, server)
            self._started = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        """End and reap the servers. The body's own exception is not shown to the group, which would wrap it."""
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            self._queue.close()


def _to_score(completion: Completion, how: Conversing | None) -> str | Conversation | None:
    """Returns the part of a completion that a scorer gets. Raises ProtocolError (`reply_mismatch`): there are more
    turns than the task has."""
    turns, most = len(completion.texts), how.turns if how else 1
    if turns > most:
        raise ProtocolError("reply_mismatch", f"the task has {most} turns of a model, got {turns}")
    return conversation_of(completion, how.reads) if how else extract_answer(completion.text)


def _answered(completion: Completion, how: Conversing | None) -> bool:
    return any(map(bool if how and how.reads == "text" else has_answer, completion.texts))


def _check_that_it_can_travel(request: Request) -> None:
    """Checks that a request can be encoded, by itself: one that cannot must not spoil the batch of others. Raises
    ProtocolError."""
    try:
        msgspec.msgpack.encode(request)
    except (UnicodeEncodeError, OverflowError) as error:
        raise ProtocolError("bad_origin", f"expected Unicode text and 64-bit integers, got {error}") from error


# ── the queue ───────────────────────────────────────────────────────────────────────────────────────────────────────
class ScoringQueue:
    """Requests on their way to any number of servers."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._arrivals, self._waiting = anyio.create_memory_object_stream[_Errand](math.inf)

    async def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Returns the replies to requests that share as few children as they can, in order.

        Raises:
            ScoringError: no server could be kept alive.
        """
        errands = [_Errand(request) for request in requests]
        for errand in errands:
            self._arrivals.send_nowait(errand)
        try:
            for errand in errands:
                await errand.settled.wait()
        finally:
            for errand in errands:
                errand.wanted = False
        return [errand.reply() for errand in errands]

    async def serve_with(self, server: ScoringProcess) -> None:
        """Let a server work on what waits, until cancelled."""
        async for first in self._waiting:
            more = min(BATCH_LIMIT - 1, self._waiting.statistics().current_buffer_used)
            for unfinished in await self._send([first, *(self._waiting.receive_nowait() for _ in range(more))], server):
                await self._send([unfinished], server)

    def close(self) -> None:
        self._arrivals.close()
        self._waiting.close()

    async def _send(self, errands: Sequence[_Errand], server: ScoringProcess) -> list[_Errand]:
        """Settles errands by one message to the server; returns those that it did not finish."""
        wanted = [errand for errand in errands if errand.wanted]
        if not wanted:
            return []
        try:
            replies = await _call(server, RequestBatch(tuple(errand.request for errand in wanted), self._limits))
        except ScoringError as error:
            replies = [error] * len(wanted)
        for errand, reply in zip(wanted, replies, strict=True):
            errand.outcome = reply
            if not isinstance(reply, Unfinished):
                errand.settled.set()
        return [errand for errand in wanted if not errand.settled.is_set()]


class _Errand:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.wanted = True
        """False as soon as nobody waits any longer."""
        self.outcome: Reply | Unfinished | ScoringError = Unfinished()
        self.settled = anyio.Event()

    def reply(self) -> Reply:
        """Returns the reply, once it is settled. Raises ScoringError, one of its own for each of the callers."""
        if isinstance(self.outcome, ScoringError):
            raise ScoringError(str(self.outcome)) from self.outcome
        assert not isinstance(self.outcome, Unfinished)
        return self.outcome


async def _call(server: ScoringProcess, batch: RequestBatch) -> Sequence[Reply | Unfinished | ScoringError]:
    """Ask a server, and once more after a restart."""
    alone = len(batch.requests[0].distinct) if len(batch.requests) == 1 else 0  # each may get a child of its own
    payload, timeout_s = msgspec.msgpack.encode(batch), batch.limits.wall_s * (1 + alone) + REPLY_SLACK_S
    try:
        return _decode_replies(await server.call(payload, timeout_s))
    except ServerLostError as lost:
        logger.warning("scorer.restart", error=str(lost))
        return _decode_replies(await server.call(payload, timeout_s))
