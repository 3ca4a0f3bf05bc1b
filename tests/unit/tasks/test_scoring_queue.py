"""Who travels with whom: the queue with servers that only take notes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import msgspec
import pytest

from swarm.errors import ScoringError
from swarm.node.sharing.verification import all_at_once
from swarm.tasks.bounded import Limits
from swarm.tasks.scoring import BATCH_LIMIT, REPLY_SLACK_S, ScoringQueue
from swarm.tasks.scoring_messages import (
    MakeQuestion,
    QuestionRequest,
    RefusedRequest,
    Reply,
    Request,
    RequestBatch,
    ScoreAnswers,
    Unfinished,
)
from swarm.tasks.scoring_process import ServerLostError
from swarm.types import Origin
from tests.patience import PATIENCE

Answer = Callable[[RequestBatch], list[Reply | Unfinished]]


def request(name: object) -> MakeQuestion:
    return MakeQuestion(QuestionRequest(str(name), "tiny", 0))


def name_of(asked: Request) -> str:
    return asked.question.task if isinstance(asked, MakeQuestion) else "scoring"


def echo(batch: RequestBatch) -> list[Reply | Unfinished]:
    return [RefusedRequest(name_of(asked), "") for asked in batch.requests]


class NotingServer:
    """Notes the names in each batch and the time that it may take, and answers when `go` is set."""

    def __init__(self, answer: Answer = echo, go: anyio.Event | None = None) -> None:
        self.batches: list[list[str]] = []
        self.timeouts: list[float] = []
        self._answer = answer
        self._go = go

    async def call(self, payload: bytes, timeout_s: float) -> bytes:
        self.timeouts.append(timeout_s)
        batch = msgspec.msgpack.decode(payload, type=RequestBatch)
        self.batches.append([name_of(asked) for asked in batch.requests])
        if self._go:
            await self._go.wait()
        return msgspec.msgpack.encode(self._answer(batch))


def with_queue(body: Callable[[ScoringQueue], Awaitable[None]], *servers: NotingServer) -> None:
    async def main() -> None:
        queue = ScoringQueue(Limits())
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for server in servers:
                    tasks.start_soon(queue.serve_with, server)
                await body(queue)
                tasks.cancel_scope.cancel()
        queue.close()

    anyio.run(main)


async def ask_all(queue: ScoringQueue, names: list[str]) -> list[str]:
    """The replies, all asked for at the same time."""

    async def ask(name: str) -> str:
        try:
            (reply,) = await queue.ask([request(name)])
        except ScoringError as error:
            return str(error)
        assert isinstance(reply, RefusedRequest)
        return reply.reason

    return await all_at_once([partial(ask, name) for name in names])


def test_what_waits_together_travels_together_in_order_up_to_the_limit_and_each_gets_its_own_reply() -> None:
    names = [str(number) for number in range(2 * BATCH_LIMIT + 3)]
    server = NotingServer()

    async def body(queue: ScoringQueue) -> None:
        assert await ask_all(queue, names) == names

    with_queue(body, server)
    assert [len(batch) for batch in server.batches] == [BATCH_LIMIT, BATCH_LIMIT, 3]
    assert [name for batch in server.batches for name in batch] == names


def test_a_second_server_serves_what_waits_while_the_first_is_busy() -> None:
    async def body(queue: ScoringQueue) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(queue.ask, [request("slow")])
            await anyio.wait_all_tasks_blocked()
            assert await ask_all(queue, ["quick"]) == ["quick"]
            go.set()

    go = anyio.Event()
    busy, free = NotingServer(go=go), NotingServer()
    with_queue(body, busy, free)
    assert (busy.batches, free.batches) == ([["slow"]], [["quick"]])


def test_a_caller_that_gave_up_before_its_turn_is_left_out_and_one_that_gives_up_later_harms_nobody() -> None:
    async def body(queue: ScoringQueue) -> None:
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as cancelled:
            cancelled.start_soon(queue.ask, [request("sent")])
            await anyio.wait_all_tasks_blocked()
            cancelled.start_soon(queue.ask, [request("waiting")])
            tasks.start_soon(ask_and_note, queue, "patient")
            await anyio.wait_all_tasks_blocked()
            cancelled.cancel_scope.cancel()
            go.set()

    async def ask_and_note(queue: ScoringQueue, name: str) -> None:
        replies.extend(await ask_all(queue, [name]))

    go, replies = anyio.Event(), list[str]()
    server = NotingServer(go=go)
    with_queue(body, server)
    assert server.batches == [["sent"], ["patient"]]
    assert replies == ["patient"]


@pytest.mark.parametrize(("losses", "replies"), [(1, ["a", "b"]), (2, ["lost", "lost"])])
def test_a_lost_batch_is_sent_once_more_and_then_fails_each_of_its_callers(losses: int, replies: list[str]) -> None:
    def loses(batch: RequestBatch) -> list[Reply | Unfinished]:
        if len(server.batches) <= losses:
            raise ServerLostError("lost")
        return echo(batch)

    server = NotingServer(loses)

    async def body(queue: ScoringQueue) -> None:
        assert await ask_all(queue, ["a", "b"]) == replies
        assert await ask_all(queue, ["c"]) == ["c"], "the queue goes on"

    with_queue(body, server)
    assert server.batches == [["a", "b"], ["a", "b"], ["c"]]


def test_a_batch_may_take_the_time_of_one_child_and_a_lone_group_that_of_one_more_for_each_of_its_answers() -> None:
    group = ScoreAnswers(Origin("bf", "tiny", 1, 0, "0.1.25"), None, ("1", "2", None, "2"))
    server = NotingServer()

    async def body(queue: ScoringQueue) -> None:
        await queue.ask([group])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(queue.ask, [group])
            tasks.start_soon(queue.ask, [group])

    with_queue(body, server)
    wall_s = Limits().wall_s
    assert server.timeouts == [3 * wall_s + REPLY_SLACK_S, wall_s + REPLY_SLACK_S]
