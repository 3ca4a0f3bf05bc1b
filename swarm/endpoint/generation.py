"""One generation: which request is sent next, what is waited for, and when it is over. Pure; the clock is an argument.

    next(now) ─▶ Send ─▶ (the request) ─▶ replied | failed ─▶ next(now) ─▶ EndpointWait ─▶ next(now) ... ─▶ Done

G requests for each question, those of the first question first, so that what time or money leaves undone are whole
groups. A group is complete with G replies; it is given up where one of its requests cannot succeed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from swarm.endpoint.asking import estimate_of, estimated, worst_case
from swarm.endpoint.config import EndpointConfig, Form
from swarm.endpoint.limits import Breaker, Budget, Taken, Window, backoff
from swarm.endpoint.outcomes import Failure, UsableReply
from swarm.endpoint.usage import Prices, Tokens, Usage
from swarm.types import Completion, Dialogue

Reason = Literal["complete", "patience", "down", "spent"]


class Request(NamedTuple):
    """One of G to a question; ordered as they are sent."""

    question: int
    number: int


class Send(NamedTuple):
    request: Request


class EndpointWait(NamedTuple):
    """Says until when to wait, unless a request ends before."""

    until: float


class Done(NamedTuple):
    reason: Reason


class EndpointLimits:
    """Holds what bounds an endpoint, from one generation to the next."""

    def __init__(self, config: EndpointConfig, usage: Usage) -> None:
        prices = Prices(config.price_in, config.price_out)
        self.budget = Budget(usage, prices, cap_tokens=config.cap_tokens, cap_money=config.cap_money)
        self.breaker = Breaker(config)
        self.requests = Window(config.requests_per_minute)
        self.tokens = Window(config.tokens_per_minute)
        self.paused_until = float("-inf")
        """Throttled: nothing is sent before."""


_LEFT = Failure("late", "not waited for", billed=True)
_HANGS = Failure("late", "no reply to anything within the patience of a generation", billed=True)


class _Cost(NamedTuple):
    worst: Tokens
    likely: Tokens
    taken: Taken


@dataclass(slots=True)
class _Waiting:
    """A request that is to be sent."""

    since: float = float("-inf")
    """Not before."""
    failures: int = 0
    throttled: int = 0


@dataclass(slots=True)
class _Group:
    replies: dict[int, Completion] = field(default_factory=dict)
    given_up: bool = False


class Generation:
    """The requests of one call, and what came of them."""

    def __init__(
        self, config: EndpointConfig, limits: EndpointLimits, prompts: Sequence[str | Dialogue], group_size: int,
        form: Form, seed: int, *, deadline: float, max_tokens: int | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._limits = limits
        self._size = group_size
        self._seed = seed
        self._deadline = deadline
        most = max_tokens or config.max_tokens
        self._worst = [worst_case(form, prompt, most, config.asking) for prompt in prompts]
        self._likely = [estimate_of(form, prompt, most, config.asking) for prompt in prompts]
        self._groups = [_Group() for _ in prompts]
        self._open = set(range(len(prompts)))
        self._waiting = {Request(q, n): _Waiting() for q in range(len(prompts)) for n in range(group_size)}
        self._under_way: dict[Request, tuple[_Waiting, _Cost]] = {}
        self.failures: Counter[str] = Counter()
        """By kind."""
        self.last_failure: Failure | None = None

    # ── what comes next ─────────────────────────────────────────────────────────────────────────────────────────────
    def next(self, now: float) -> Send | EndpointWait | Done:
        if not self._open:
            return Done("complete")
        if now >= self._deadline:
            return Done("patience")
        state = self._limits.breaker.state(now)
        if state == "open":
            return Done("down")
        if len(self._under_way) >= (1 if state == "trial" else self._config.concurrency):
            return EndpointWait(self._deadline)
        return self._next_to_send(now)

    def _next_to_send(self, now: float) -> Send | EndpointWait | Done:
        if not self._waiting:
            return EndpointWait(self._deadline)
        start = max(now, self._limits.paused_until)
        request, waiting = min(self._waiting.items(), key=lambda item: (max(item[1].since, start), item[0]))
        worst, likely = self._worst[request.question], self._likely[request.question]
        due = max(start, waiting.since, now + self._rate_wait(now, sum(likely)))
        if due > now:
            return self._wait(due)
        if not self._limits.budget.allows(worst):
            return EndpointWait(self._deadline) if self._under_way else Done("spent")
        self._start(request, now, worst, likely)
        return Send(request)

    def _rate_wait(self, now: float, tokens: int) -> float:
        return max(self._limits.requests.wait(now, 1), self._limits.tokens.wait(now, tokens))

    def _wait(self, due: float) -> EndpointWait | Done:
        if due >= self._deadline and not self._under_way:
            return Done("patience")
        return EndpointWait(min(due, self._deadline))

    def _start(self, request: Request, now: float, worst: Tokens, likely: Tokens) -> None:
        self._limits.budget.hold(worst)
        self._limits.requests.take(now, 1)
        cost = _Cost(worst, likely, self._limits.tokens.take(now, sum(likely)))
        self._under_way[request] = self._waiting.pop(request), cost

    # ── what came of it ─────────────────────────────────────────────────────────────────────────────────────────────
    def replied(self, request: Request, reply: UsableReply) -> tuple[Completion, ...]:
        """Takes a reply; returns its group's completions if it was the last of them, else nothing."""
        _, cost = self._under_way.pop(request)
        self._settle(cost, reply)
        self._limits.budget.count_reply(trimmed=reply.trimmed)
        self._limits.breaker.succeeded()
        group = self._groups[request.question]
        group.replies[request.number] = Completion(reply.text, reply.finished)
        if len(group.replies) < self._size or group.given_up:
            return ()
        self._open.discard(request.question)
        return self._completions(group)

    def failed(self, request: Request, failure: Failure, now: float) -> None:
        waiting, cost = self._under_way.pop(request)
        self._settle(cost, failure)
        self._note(failure)
        if failure.kind == "throttled":
            self._throttle(request, waiting, failure, now)
            return
        self._limits.breaker.failed(now, at_once=failure.kind == "refused")
        waiting.failures += 1
        if failure.kind in ("declined", "refused") or waiting.failures > self._config.retries:
            self._give_up(request.question)
        elif not self._groups[request.question].given_up:
            waiting.since = now + self._backoff(request, waiting.failures, failure.asked)
            self._waiting[request] = waiting

    def _throttle(self, request: Request, waiting: _Waiting, failure: Failure, now: float) -> None:
        """All wait: a limit is the endpoint's, not one request's."""
        waiting.throttled += 1
        pause = self._backoff(request, waiting.throttled, failure.asked)
        self._limits.paused_until = max(self._limits.paused_until, now + pause)
        if not self._groups[request.question].given_up:
            self._waiting[request] = waiting

    def _backoff(self, request: Request, failures: int, asked: float | None) -> float:
        config = self._config
        return backoff(config.backoff, config.longest_backoff, failures, self._seed, *request, asked=asked)

    def _give_up(self, question: int) -> None:
        self._groups[question].given_up = True
        self._open.discard(question)
        self._waiting = {request: kept for request, kept in self._waiting.items() if request.question != question}

    def _note(self, failure: Failure) -> None:
        self.failures[failure.kind] += 1
        self.last_failure = failure

    def _settle(self, cost: _Cost, outcome: UsableReply | Failure) -> None:
        spent, estimate = spent_on(outcome, cost.worst, cost.likely)
        self._limits.budget.settle(cost.worst, spent, estimated=estimate)
        self._limits.tokens.correct(cost.taken, sum(spent))

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def end(self, now: float) -> list[tuple[Completion, ...]]:
        """Returns for each question its G completions, or nothing. What is still under way counts as its worst case.

        Where time is over without a single reply, the endpoint hangs: the next generation begins with a trial.
        """
        if now >= self._deadline and self._under_way and not any(group.replies for group in self._groups):
            self._note(_HANGS)
            self._limits.breaker.failed(now, at_once=True)
        for _, cost in self._under_way.values():
            self._settle(cost, _LEFT)
        self._under_way.clear()
        return [self._completions(group) for group in self._groups]

    def _completions(self, group: _Group) -> tuple[Completion, ...]:
        if group.given_up or len(group.replies) < self._size:
            return ()
        return tuple(group.replies[number] for number in range(self._size))


def spent_on(outcome: UsableReply | Failure, worst: Tokens, likely: Tokens) -> tuple[Tokens, int]:
    """Returns the tokens that a request cost, and how many of them are estimated: where the server does not count."""
    if isinstance(outcome, Failure):
        return (worst, sum(worst)) if outcome.billed else (Tokens(0, 0), 0)
    prompt = likely.prompt if outcome.tokens_in is None else outcome.tokens_in
    written = estimated(outcome.written) if outcome.tokens_out is None else outcome.tokens_out
    guessed = (outcome.tokens_in is None) * prompt + (outcome.tokens_out is None) * written
    return Tokens(prompt, written), guessed
