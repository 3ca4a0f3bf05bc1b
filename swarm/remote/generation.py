"""One generation elsewhere: which request is sent next, what is waited for, and when it is over.

    next(now) ─▶ Send ─▶ (the request) ─▶ replied | failed ─▶ next(now) ─▶ RemoteWait ─▶ next(now) ... ─▶ Done

Some requests for each question, those of the first question first, so that what time or money leaves undone are whole
groups. A group is complete with all of its replies; it is given up where one of its requests cannot succeed. Generation
is pure: the clock is an argument. `carry_out` does what it says, on the event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import anyio

from swarm.remote.limits import ServerLimits, backoff
from swarm.remote.outcomes import FINAL, Failure, Kind, Reply, Tokens
from swarm.types import Bill, Completion, Dialogue, GenerationCall, Groups, Ready

Reason = Literal["complete", "patience", "down", "spent"]
COUNTED: frozenset[Kind] = frozenset({"down", "late", "unreadable"})
"""Failures that count against the repetitions of a request; all but the final ones are repeated."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How one kind of writer is asked. Times are seconds."""

    concurrency: int
    """Most requests under way at once."""
    patience: float
    """For a generation: groups that are not complete by then are left out."""
    repeats: int = 0
    """How often one request is repeated after failures that count."""
    pause: float = 0.0
    """Before the first repetition; twice as long each time."""
    longest_pause: float = 0.0


class Request(NamedTuple):
    """One of those to a question; ordered as they are sent."""

    question: int
    number: int


class Send(NamedTuple):
    request: Request


class RemoteWait(NamedTuple):
    """Says until when to wait, unless a request ends before."""

    until: float


class Done(NamedTuple):
    reason: Reason


_LEFT = Failure("late", "not waited for", billed=True)
_HANGS = Failure("late", "no reply to anything within the patience of a generation", billed=True)


@dataclass(slots=True)
class _Waiting:
    """A request that is to be sent."""

    since: float = float("-inf")
    """Not before."""
    failures: int = 0
    counted: int = 0


@dataclass(slots=True)
class _Group:
    replies: dict[int, Reply] = field(default_factory=dict)
    given_up: bool = False


LOOK_AGAIN = 0.5
"""Seconds after which it is looked whether another call's requests came to less than was held for them."""


class Generation:
    def __init__(
        self, terms: Terms, limits: ServerLimits, costs: Sequence[Tokens], size: int, seed: int, *, began: float
    ) -> None:
        """
        Args:
            costs: of one request to each question, at worst.
            size: requests to each question.
            seed: of the pauses between attempts.
        """
        self._terms, self._limits, self._costs = terms, limits, costs
        self._size, self._seed = size, seed
        self._deadline = began + terms.patience
        self._groups = [_Group() for _ in costs]
        self._waiting = {Request(q, n): _Waiting() for q in range(len(costs)) for n in range(size)}
        self._under_way: dict[Request, _Waiting] = {}
        self.failures: Counter[str] = Counter()
        """By kind."""
        self.last_failure: Failure | None = None

    # ── what comes next ─────────────────────────────────────────────────────────────────────────────────────────────
    def next(self, now: float) -> Send | RemoteWait | Done:
        if all(group.given_up or len(group.replies) == self._size for group in self._groups):
            return Done("complete")
        if now >= self._deadline:
            return Done("patience")
        state = self._limits.breaker.state(now)
        if state == "open":
            return Done("down")
        if not self._waiting or len(self._under_way) >= (1 if state == "trial" else self._terms.concurrency):
            return RemoteWait(self._deadline)
        return self._next_to_send(now)

    def _next_to_send(self, now: float) -> Send | RemoteWait | Done:
        limits, start = self._limits, max(now, self._limits.paused_until)
        request, waiting = min(self._waiting.items(), key=lambda item: (max(item[1].since, start), item[0]))
        worst = self._costs[request.question]
        due = max(start, waiting.since)
        if due > now:
            is_over = due >= self._deadline and not self._under_way
            return Done("patience") if is_over else RemoteWait(min(due, self._deadline))
        if not limits.budget.allows(worst):
            if self._under_way:
                return RemoteWait(self._deadline)
            if limits.budget.holds:  # for another call, and it may come to less
                return RemoteWait(min(now + LOOK_AGAIN, self._deadline))
            return Done("spent")
        limits.budget.hold(worst)
        self._under_way[request] = self._waiting.pop(request)
        return Send(request)

    # ── what came of it ─────────────────────────────────────────────────────────────────────────────────────────────
    def replied(self, request: Request, reply: Reply) -> tuple[Completion, ...]:
        """Takes a reply; returns its group's completions if it was the last of them, else nothing."""
        del self._under_way[request]
        self._settle(request, reply)
        self._limits.breaker.succeeded()
        group = self._groups[request.question]
        group.replies[request.number] = reply
        return self._completions(group)

    def failed(self, request: Request, failure: Failure, now: float) -> None:
        """Takes a failure: the request is repeated, or its question given up."""
        waiting = self._under_way.pop(request)
        self._settle(request, failure)
        self._note(failure)
        terms = self._terms
        waiting.failures += 1
        waiting.counted += failure.kind in COUNTED
        pause = backoff(terms.pause, terms.longest_pause, waiting.failures, self._seed, *request, asked=failure.asked)
        waiting.since = now + pause
        if failure.kind == "throttled":  # all wait: a limit is the server's, not one request's
            self._limits.paused_until = max(self._limits.paused_until, waiting.since)
        else:
            self._limits.breaker.failed(now, at_once=failure.kind == "refused")
        group = self._groups[request.question]
        if failure.kind in FINAL or waiting.counted > terms.repeats:
            group.given_up = True
            self._waiting = {one: kept for one, kept in self._waiting.items() if one.question != request.question}
        if not group.given_up:
            self._waiting[request] = waiting

    def _note(self, failure: Failure) -> None:
        self.failures[failure.kind] += 1
        self.last_failure = failure

    def _settle(self, request: Request, outcome: Reply | Failure) -> None:
        self._limits.budget.settle(self._costs[request.question], outcome)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def end(self, now: float) -> Groups:
        """Returns for each question its completions, or nothing. What is still under way counts as its worst case.

        Where time is over without a single reply, the server hangs: the next generation begins with a trial.
        """
        if now >= self._deadline and self._under_way and not any(group.replies for group in self._groups):
            self._note(_HANGS)
            self._limits.breaker.failed(now, at_once=True)
        for request in self._under_way:
            self._settle(request, _LEFT)
        self._under_way.clear()
        return [self._completions(group) for group in self._groups]

    def _completions(self, group: _Group) -> tuple[Completion, ...]:
        if group.given_up or len(group.replies) < self._size:
            return ()
        return tuple(group.replies[number].completion for number in range(self._size))


Ask = Callable[[Request], Awaitable[Reply | Failure]]
Heard = Callable[[Reply | Failure], None]
"""Is told what came of a request."""


async def carry_out(
    generation: Generation, ask: Ask, clock: Callable[[], float], heard: Heard | None = None, ready: Ready | None = None
) -> Reason:
    """Does what the generation asks for, and tells it what came of that, until it is done."""
    send, receive = anyio.create_memory_object_stream[tuple[Request, Reply | Failure]](math.inf)

    async def one(request: Request) -> None:
        send.send_nowait((request, await ask(request)))

    with send, receive:
        async with anyio.create_task_group() as tasks:
            while not isinstance(step := generation.next(clock()), Done):
                if isinstance(step, Send):
                    tasks.start_soon(one, step.request)
                    continue
                with anyio.move_on_after(max(0.0, step.until - clock())):
                    request, outcome = await receive.receive()
                    if isinstance(outcome, Failure):
                        generation.failed(request, outcome, clock())
                    elif (group := generation.replied(request, outcome)) and ready:
                        ready(request.question, group)
                    if heard:
                        heard(outcome)
            tasks.cancel_scope.cancel()
    assert isinstance(step, Done)
    return step.reason


# ── as a node has it ────────────────────────────────────────────────────────────────────────────────────────────────
class RemoteWriter:
    """A generator whose completions are written elsewhere. Implements swarm.types.Generator and RemoteGenerator by its
    one method `write`."""

    name: str
    tokenizer = ""
    """Of one that gives no token ids."""
    repeats = False

    @property
    def bill(self) -> Bill | None:
        """Returns what it has cost; None: nobody is asked for it."""
        return None

    def has_room(self, _prompt: str) -> bool:
        """Says yes, where nobody can tell."""
        return True

    async def write(self, call: GenerationCall) -> Groups:
        """Has the completions written; a question that comes to nothing gets none."""
        raise NotImplementedError

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> Groups:
        """Generates for a caller without an event loop."""
        call = GenerationCall(prompts, group_size, seed, ready)
        return asyncio.run(self.write(call))  # anyio.run sees the caller's loop in the context of a compute thread
