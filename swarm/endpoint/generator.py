"""Completions from an endpoint. Implements swarm.types.Generator; says when it is down, and ends with its money.

    prompts ─▶ Generation: what next? ─Send─▶ EndpointClient ─▶ UsableReply | Failure ─▶ Generation ─▶ ... ─▶ groups

Each call runs an event loop of its own in the thread that it blocks. What outlives a call: totals, limits per minute,
whether the endpoint is down, and the form in which it takes questions.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from swarm.endpoint.asking import PROBE, PROBE_TOKENS, estimate_of, request_body, worst_case
from swarm.endpoint.config import FORMS, EndpointConfig, Form
from swarm.endpoint.generation import Done, EndpointLimits, EndpointWait, Generation, Request, Send, spent_on
from swarm.endpoint.key import read_key
from swarm.endpoint.outcomes import Failure, UsableReply, failure_of
from swarm.endpoint.replies import read_reply
from swarm.endpoint.usage import Usage
from swarm.errors import ConfigError, SpendingCapError
from swarm.extras import lacking
from swarm.logs import get_logger
from swarm.types import Completion, Dialogue, Ready

if TYPE_CHECKING:
    from swarm.endpoint.client import EndpointClient

logger = get_logger(__name__)

Outcome = tuple[Request, UsableReply | Failure]


class CheckedEndpoint(NamedTuple):
    """Holds what a look at the endpoint gave."""

    form: Form | None
    """How it takes questions; None: it cannot be said yet, for it is not there or throttles."""
    detail: str = ""
    """Why not."""


class EndpointGenerator:
    """Asks an OpenAI-compatible endpoint. Not thread-safe, but for `stop`."""

    def __init__(
        self,
        config: EndpointConfig,
        *,
        usage: Usage | None = None,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            usage: totals of former lives, as `usage` gave them.
            environ: where the key's variable is looked up, now and never again.

        Raises:
            ConfigError: the client is not installed, or the key cannot be had or must not be sent.
        """
        try:
            from swarm.endpoint.client import EndpointClient
        except ImportError:
            raise lacking("an endpoint as a generator", "the openai client", "endpoint") from None
        self.name = config.shown_name
        self.tokenizer = ""  # no token ids come over the wire
        self.repeats = False
        self._config = config
        self._limits = EndpointLimits(config, usage or Usage())
        key = read_key(config, environ)
        self._open_client = partial(EndpointClient, config, key)
        self._hidden: Callable[[str], str] = key.hidden_in if key else str
        self._clock, self._wall = clock, wall
        self._form: Form | None = None if config.api == "auto" else config.api
        self._down = False
        self._spent = self._stopped = False
        self._cancel: Callable[[], object] | None = None

    @property
    def usage(self) -> Usage:
        """Returns the totals, to be kept by the node and handed to its next life."""
        return self._limits.budget.usage

    def take_up(self, former: Usage) -> None:
        """Go on from the totals of former lives, before the first generation; what this one has used is added."""
        now = msgspec.structs.asdict(self.usage)
        self._limits.budget.usage = Usage(**{name: value + getattr(former, name) for name, value in now.items()})

    @property
    def spent(self) -> bool:
        """The cap leaves no room for the next request: the next `generate` raises SpendingCapError."""
        return self._spent

    def stop(self) -> None:
        """Have a running `generate` return what it has, and each later one nothing. Callable from any thread."""
        self._stopped = True
        if cancel := self._cancel:
            cancel()

    # ── the start ───────────────────────────────────────────────────────────────────────────────────────────────────
    def check(self) -> CheckedEndpoint:
        """Ask one short question: a key, a model's name or a URL that is wrong is told before a run begins.

        It counts like any request. `/v1/models` would be free, but not every server answers there, and none says
        by it that the model answers.

        Raises:
            ConfigError: the endpoint is there and refuses.
            SpendingCapError: nothing is left to spend.
        """
        found = asyncio.run(self._check())  # anyio.run sees the caller's loop in the context of a compute thread
        if isinstance(found, Failure) and found.kind in ("refused", "declined", "unreadable"):
            raise ConfigError(self._refusal(found))
        self._say_state(None if isinstance(found, str) else found)
        if isinstance(found, Failure):
            return CheckedEndpoint(None, found.detail)
        logger.info("endpoint.ready", model=self.name, form=found)
        return CheckedEndpoint(found)

    async def _check(self) -> Form | Failure:
        async with self._open_client() as client:
            return await self._find_form(client, self._config.request_timeout)

    async def _find_form(self, client: EndpointClient, seconds: float) -> Form | Failure:
        """Returns the first form that it takes; else what it said to the first."""
        first: Failure | None = None
        for form in (self._config.api,) if self._config.api != "auto" else FORMS:
            outcome = await self._probe(client, form, seconds)
            if isinstance(outcome, UsableReply):
                self._limits.breaker.succeeded()
                self._form = form
                return form
            first = first or outcome
            if not outcome.of_another_form:
                break
        assert first
        if first.kind != "throttled":
            self._limits.breaker.failed(self._clock(), at_once=True)
        return first

    async def _probe(self, client: EndpointClient, form: Form, seconds: float) -> UsableReply | Failure:
        most = min(PROBE_TOKENS, self._config.max_tokens)
        worst, budget = worst_case(form, PROBE, most, self._config.asking), self._limits.budget
        if not budget.allows(worst):
            self._spend_out()
            raise self._cap_error()
        budget.hold(worst)
        self._limits.requests.take(self._clock(), 1)
        outcome = await self._outcome(client, form, PROBE, seconds, most)
        spent, estimate = spent_on(outcome, worst, estimate_of(form, PROBE, most, self._config.asking))
        budget.settle(worst, spent, estimated=estimate)
        return outcome

    def _refusal(self, failure: Failure) -> str:
        hint = ""
        if failure.status == 404:
            hint = " (is that the model's name there, and does base_url end as the server wants it, mostly in /v1?)"
        elif failure.status in (401, 403):
            place = self._config.key_file or f"the variable {self._config.key_variable or '(none)'}"
            hint = f" (the key is read from {place})"
        return f"endpoint: {self._config.base_url} refuses model {self._config.model!r}: {failure.detail}{hint}"

    # ── a generation ────────────────────────────────────────────────────────────────────────────────────────────────
    def has_room(self, _prompt: str) -> bool:
        """Says yes: nobody tells the length of its model's context."""
        return True

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        """Sample group_size completions for each prompt, within the patience of the configuration.

        One that came to nothing (no time, refused, endpoint down, money spent) gets an empty tuple, never fewer than
        group_size completions; `ready` is not told of it.

        Args:
            seed: of the pauses between attempts; no server promises to sample the same again.

        Raises:
            SpendingCapError: nothing was left to spend when the call before ended.
        """
        if self._spent:
            raise self._cap_error()
        nothing: list[tuple[Completion, ...]] = [()] * len(prompts)
        if not prompts or self._stopped or self._limits.breaker.state(self._clock()) == "open":
            return nothing
        return asyncio.run(self._generate(prompts, group_size, seed, ready)) or nothing

    async def _generate(
        self, prompts: Sequence[str | Dialogue], group_size: int, seed: int, ready: Ready | None
    ) -> list[tuple[Completion, ...]] | None:
        began, loop = self._clock(), asyncio.get_running_loop()
        generation: Generation | None = None
        with anyio.CancelScope() as scope:
            self._cancel = lambda: loop.call_soon_threadsafe(scope.cancel)
            if self._stopped:
                return None
            try:
                async with self._open_client() as client:
                    form = self._form or await self._find_form(client, self._config.patience)
                    if isinstance(form, Failure):
                        self._say_state(form)
                        return None
                    generation = Generation(
                        self._config, self._limits, prompts, group_size, form, seed,
                        deadline=began + self._config.patience,
                    )  # fmt: skip
                    await self._carry_out(generation, client, form, prompts, ready)
            finally:
                self._cancel = None
        return self._ended(generation, began) if generation else None

    async def _carry_out(
        self,
        generation: Generation,
        client: EndpointClient,
        form: Form,
        prompts: Sequence[str | Dialogue],
        ready: Ready | None,
    ) -> None:
        """Do what the generation asks for, and tell it what came of that, until it is done."""
        send, receive = anyio.create_memory_object_stream[Outcome](self._config.concurrency)
        async with anyio.create_task_group() as tasks:
            with send, receive:
                while not isinstance(step := generation.next(self._clock()), Done):
                    if isinstance(step, Send):
                        tasks.start_soon(self._ask, client, form, step.request, prompts, send)
                    else:
                        await self._wait(step, generation, receive, ready)
                if step.reason == "spent":
                    self._spend_out()
                tasks.cancel_scope.cancel()

    async def _ask(
        self,
        client: EndpointClient,
        form: Form,
        request: Request,
        prompts: Sequence[str | Dialogue],
        send: MemoryObjectSendStream[Outcome],
    ) -> None:
        outcome = await self._outcome(client, form, prompts[request.question], self._config.request_timeout)
        await send.send((request, outcome))

    async def _wait(
        self,
        step: EndpointWait,
        generation: Generation,
        receive: MemoryObjectReceiveStream[Outcome],
        ready: Ready | None,
    ) -> None:
        with anyio.move_on_after(max(0.0, step.until - self._clock())):
            request, outcome = await receive.receive()
            if isinstance(outcome, Failure):
                generation.failed(request, outcome, self._clock())
            elif (completions := generation.replied(request, outcome)) and ready:
                ready(request.question, completions)
            self._say_state(outcome if isinstance(outcome, Failure) else None)

    async def _outcome(
        self, client: EndpointClient, form: Form, prompt: str | Dialogue, seconds: float, max_tokens: int | None = None
    ) -> UsableReply | Failure:
        answer = await client.ask(form, request_body(self._config, form, prompt, max_tokens), seconds)
        if isinstance(answer, Failure):
            return answer
        if not 200 <= answer.status < 300:
            failure = failure_of(answer.status, answer.headers, answer.body, self._wall())
            return failure._replace(detail=self._hidden(failure.detail))
        reply = read_reply(answer.body, self._config, form, prompt)
        if isinstance(reply, Failure):
            return reply._replace(detail=self._hidden(reply.detail))
        return reply._replace(text=self._hidden(reply.text))

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _ended(self, generation: Generation, began: float) -> list[tuple[Completion, ...]]:
        groups = generation.end(self._clock())
        self._say_state(generation.last_failure)
        logger.info(
            "endpoint.generated",
            groups=sum(1 for group in groups if group),
            asked=len(groups),
            seconds=round(self._clock() - began, 3),
            failures=dict(generation.failures),
            tokens=self.usage.tokens,
            money=round(self.usage.money, 6),
        )
        return groups

    def _say_state(self, failure: Failure | None) -> None:
        """Logs once that the endpoint is down, and once that it is back."""
        down = self._limits.breaker.state(self._clock()) != "closed"
        if down and not self._down:
            detail = failure.detail if failure else ""
            logger.warning("endpoint.down", url=self._config.base_url, detail=detail)
        elif self._down and not down:
            logger.info("endpoint.back", url=self._config.base_url)
        self._down = down

    def _spend_out(self) -> None:
        if not self._spent:
            logger.warning("endpoint.spent", tokens=self.usage.tokens, money=round(self.usage.money, 6))
        self._spent = True

    def _cap_error(self) -> SpendingCapError:
        usage, config = self.usage, self._config
        caps = [
            *([f"cap_tokens {config.cap_tokens}"] if config.cap_tokens is not None else []),
            *([f"cap_money {config.cap_money:g}"] if config.cap_money is not None else []),
        ]
        message = (
            f"endpoint: {usage.tokens} tokens used ({usage.tokens_estimated} estimated), {usage.money:.4g} spent;"
            f" the next request may exceed {' or '.join(caps)}; raise it, or end this node"
        )
        return SpendingCapError(message, tokens=usage.tokens, money=usage.money)
