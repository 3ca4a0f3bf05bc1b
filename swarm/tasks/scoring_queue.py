"""Request queue of the scoring servers: batches waiting requests, first come, first served.

    ask ─▶ waiting ──up to BATCH_LIMIT──▶ one message, one child ──▶ a reply to each
                                                   └──Unfinished──▶ once more, each alone

    waits for   a free server (first come, first served), then its replies
    unblocks    everyone whose request was in the batch, each with its own reply

A fork costs more than the scoring of a group, hence the batches. A request that nobody waits for any longer is left
out if it has not been sent; if it has, the others' replies are not disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import anyio
import msgspec

from swarm.errors import ScoringError
from swarm.logs import get_logger
from swarm.tasks.bounded import Limits
from swarm.tasks.scoring_messages import Reply, Request, RequestBatch, Unfinished
from swarm.tasks.scoring_process import ScoringProcess, ServerLostError

logger = get_logger(__name__)
_decode_replies: Callable[[bytes], list[Reply | Unfinished]] = msgspec.msgpack.Decoder(list[Reply | Unfinished]).decode

BATCH_LIMIT = 16
"""Requests of one message. Sixteen honest groups of 8 take 15 ms of one child's CPU second."""
REPLY_SLACK_S = 10.0
"""Added to the time that the server itself may take."""


class ScoringQueue:
    """Requests on their way to any number of servers."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._arrivals, self._waiting = anyio.create_memory_object_stream[_Errand](math.inf)

    async def ask(self, request: Request) -> Reply:
        """Returns the reply to one request. Raises ScoringError if no server could be kept alive."""
        (reply,) = await self.ask_all([request])
        return reply

    async def ask_all(self, requests: Sequence[Request]) -> list[Reply]:
        """Returns the replies to requests that share as few children as they can, in order. Raises as `ask`."""
        errands = [_Errand(request) for request in requests]
        for errand in errands:
            self._arrivals.send_nowait(errand)
        try:
            return [await errand.reply() for errand in errands]
        finally:
            for errand in errands:
                errand.wanted = False

    async def serve_with(self, server: ScoringProcess) -> None:
        """Let a server work on what waits, until cancelled."""
        async for first in self._waiting:
            for unfinished in await self._send([first, *self._take(BATCH_LIMIT - 1)], server):
                await self._send([unfinished], server)

    def close(self) -> None:
        """Closes the queue, when no server works on it any longer."""
        self._arrivals.close()
        self._waiting.close()

    def _take(self, most: int) -> list[_Errand]:
        """Takes up to `most` errands that wait, without waiting for any."""
        count = min(most, self._waiting.statistics().current_buffer_used)
        return [self._waiting.receive_nowait() for _ in range(count)]

    async def _send(self, errands: Sequence[_Errand], server: ScoringProcess) -> list[_Errand]:
        """Settle errands by one message to the server; returns those that it did not finish."""
        wanted = [errand for errand in errands if errand.wanted]
        if not wanted:
            return []
        try:
            replies = await _call(server, RequestBatch(tuple(errand.request for errand in wanted), self._limits))
        except ScoringError as error:
            replies = [error] * len(wanted)
        return [errand for errand, reply in zip(wanted, replies, strict=True) if not errand.settle(reply)]


class _Errand:
    """A request, and whoever waits for its reply."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.wanted = True
        """False as soon as nobody waits any longer."""
        self._outcome: Reply | ScoringError | None = None
        self._settled = anyio.Event()

    async def reply(self) -> Reply:
        await self._settled.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, ScoringError):
            raise ScoringError(str(self._outcome)) from self._outcome  # one of its own for each of the callers
        return self._outcome

    def settle(self, outcome: Reply | Unfinished | ScoringError) -> bool:
        """Tells whether that was the end of it."""
        if isinstance(outcome, Unfinished):
            return False
        self._outcome = outcome
        self._settled.set()
        return True


async def _call(server: ScoringProcess, batch: RequestBatch) -> Sequence[Reply | Unfinished | ScoringError]:
    """Ask a server, and once more after a restart."""
    payload, timeout_s = msgspec.msgpack.encode(batch), _longest(batch) + REPLY_SLACK_S
    try:
        return _decode_replies(await server.call(payload, timeout_s))
    except ServerLostError as lost:
        logger.warning("scorer.restart", error=str(lost))
        return _decode_replies(await server.call(payload, timeout_s))


def _longest(batch: RequestBatch) -> float:
    """Returns seconds that the server may take: one child for all, and for a lone request one more for each of its
    answers."""
    alone = len(batch.requests[0].distinct) if len(batch.requests) == 1 else 0
    return batch.limits.wall_s * (1 + alone)
