"""Completions from any OpenAI-compatible endpoint: vLLM, llama.cpp's server, Ollama, `transformers serve`, a provider.

G requests to each question, within what it may cost. What outlives a call: totals, whether the endpoint is down,
and the form in which it takes questions, which a short question finds out.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from anyio import to_thread

from swarm import forms
from swarm.errors import ConfigError, SpendingCapError
from swarm.logs import get_logger
from swarm.remote.client import HttpClient, opened
from swarm.remote.endpoint_config import FORMS, EndpointConfig, Form
from swarm.remote.endpoint_forms import cost_of, most_bytes, path_of, read_reply, request_body
from swarm.remote.generation import Generation, RemoteWriter, Request, carry_out
from swarm.remote.limits import Usage
from swarm.remote.outcomes import Failure, Reply
from swarm.types import Bill, Dialogue, GenerationCall, Groups

logger = get_logger(__name__)

PROBE, PROBE_TOKENS = "What is 1 + 1?", 16
_FALLS_BACK = frozenset({400, 404, 405, 422, 501})
"""With these the endpoint may take the question in another form."""


class EndpointGenerator(RemoteWriter):
    """Asks an OpenAI-compatible endpoint; says when it is down, and ends with its money."""

    def __init__(
        self,
        config: EndpointConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            environ: where the key's variable is looked up, now and never again.

        Raises:
            ConfigError: the key cannot be had or must not be sent.
        """
        self.name = config.shown_name
        self._config, self._clock = config, clock
        self._limits = config.limits
        self._open = partial(opened, config.base_url, config.read_key(environ), by_proxy=not config.local)
        self._form: Form | None = None if config.api == "auto" else config.api
        self._down = self._spent = False

    # ── what it has cost ────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def usage(self) -> Usage:
        """Returns the totals, to be kept by the node and handed to its next life."""
        return self._limits.budget.usage

    @property
    def bill(self) -> Bill:
        """Returns what the endpoint has cost in all lives of the node; closed: the cap leaves no room for a request."""
        usage = self.usage
        return Bill(usage.requests, usage.tokens_in, usage.tokens_out, usage.money, closed=self._spent)

    def as_json(self) -> bytes:
        return msgspec.json.encode(self.usage)

    def take_up(self, former: bytes) -> None:
        """Go on from the totals of former lives, before the first generation. Raises msgspec.MsgspecError."""
        self._limits.budget.usage = self.usage.plus(**msgspec.structs.asdict(forms.decode(former, Usage)))

    # ── the start ───────────────────────────────────────────────────────────────────────────────────────────────────
    def check(self) -> Form | Failure:
        """Ask one short question: a key, a model's name or a URL that is wrong is told before a run begins.

        It counts like any request. `/v1/models` would be free, but not every server answers there, and none says
        by it that the model answers.

        Returns:
            how it takes questions, or why that cannot be said yet: it is not there, or throttles.

        Raises:
            ConfigError: the endpoint is there and refuses.
            SpendingCapError: nothing is left to spend.
        """

        async def check() -> Form | Failure:
            async with self._open() as client:
                return await self._find_form(client, self._config.request_timeout)

        found = asyncio.run(check())
        if isinstance(found, Failure) and found.kind in ("refused", "declined", "unreadable"):
            raise ConfigError(self._refusal(found))
        self._say_state(found)
        if not isinstance(found, Failure):
            logger.info("endpoint.ready", model=self.name, form=found)
        return found

    async def _find_form(self, client: HttpClient, seconds: float) -> Form | Failure:
        """Returns the first form that it takes; else what it said to the first."""
        first: Failure | None = None
        for form in (self._config.api,) if self._config.api != "auto" else FORMS:
            outcome = await self._probe(client, form, seconds)
            if isinstance(outcome, Reply):
                self._limits.breaker.succeeded()
                self._form = form
                return form
            first = first or outcome
            if not _is_of_another_form(outcome):
                break
        assert first
        if first.kind != "throttled":
            self._limits.breaker.failed(self._clock(), at_once=True)
        return first

    async def _probe(self, client: HttpClient, form: Form, seconds: float) -> Reply | Failure:
        most = min(PROBE_TOKENS, self._config.max_tokens)
        cost, budget = cost_of(form, PROBE, most, self._config.asking), self._limits.budget
        if not budget.allows(cost):
            self._spend_out()
            usage, caps = self.usage, self._config
            message = (
                f"endpoint: {usage.tokens} tokens used ({usage.tokens_estimated} estimated), {usage.money:.4g} spent; "
                f"the next request may exceed a cap (cap_tokens {caps.cap_tokens}, cap_money {caps.cap_money}): raise "
                "it, or end this node"
            )
            raise SpendingCapError(message, tokens=usage.tokens, money=usage.money)
        budget.hold(cost)
        outcome = await self._outcome(client, form, PROBE, seconds, most)
        budget.settle(cost, outcome)
        return outcome

    def _refusal(self, failure: Failure) -> str:
        hint = ""
        if failure.status == 404:
            hint = " (is that the model's name there, and does base_url end as the server wants it, mostly in /v1?)"
        elif failure.status in (401, 403):
            hint = f" (the key is read from the variable {self._config.key_variable or '(none)'})"
        return f"endpoint: {self._config.base_url} refuses model {self._config.model!r}: {failure.detail}{hint}"

    # ── a generation ────────────────────────────────────────────────────────────────────────────────────────────────
    async def write(self, call: GenerationCall) -> Groups:
        """Sample group_size completions for each prompt, within the patience of the configuration.

        One that came to nothing (no time, refused, endpoint down, money spent) gets an empty tuple, never fewer than
        group_size completions; `ready` is not told of it. The seed is of the pauses between attempts; no server
        promises to sample the same again.
        """
        began = self._clock()
        nothing: Groups = [()] * len(call.prompts)
        if self._spent or not call.prompts or self._limits.breaker.state(began) == "open":
            return nothing
        async with self._open() as client:
            try:
                form = self._form or await self._find_form(client, self._config.patience)
            except SpendingCapError:
                return nothing
            if isinstance(form, Failure):
                self._say_state(form)
                return nothing
            return await self._generate(client, form, call, began)

    async def _generate(self, client: HttpClient, form: Form, call: GenerationCall, began: float) -> Groups:
        config = self._config
        costs = [cost_of(form, prompt, config.max_tokens, config.asking) for prompt in call.prompts]
        generation = Generation(config.terms, self._limits, costs, call.group_size, call.seed, began=began)

        async def ask(request: Request) -> Reply | Failure:
            return await self._outcome(client, form, call.prompts[request.question], config.request_timeout)

        try:
            if await carry_out(generation, ask, self._clock, self._say_state, call.ready) == "spent":
                self._spend_out()
        finally:
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

    async def _outcome(
        self, client: HttpClient, form: Form, prompt: str | Dialogue, seconds: float, max_tokens: int | None = None
    ) -> Reply | Failure:
        config = self._config
        body = request_body(config, form, prompt, max_tokens)
        answer = await client.post(path_of(form), body, seconds=seconds, most_bytes=most_bytes(config))
        if isinstance(answer, Failure):
            return answer
        # in a thread: the patterns take their time for a reply that begins with the prompt
        reply = await to_thread.run_sync(read_reply, answer, config, form, prompt)
        if isinstance(reply, Failure):
            return reply._replace(detail=client.hidden(reply.detail))
        text = client.hidden(reply.completion.text)
        return reply._replace(completion=msgspec.structs.replace(reply.completion, text=text))

    # ── what people should know ─────────────────────────────────────────────────────────────────────────────────────
    def _say_state(self, outcome: object) -> None:
        """Logs once that the endpoint is down, and once that it is back; `outcome` is the latest of a request."""
        down = self._limits.breaker.state(self._clock()) != "closed"
        if down and not self._down:
            detail = outcome.detail if isinstance(outcome, Failure) else ""
            logger.warning("endpoint.down", url=self._config.base_url, detail=detail)
        elif self._down and not down:
            logger.info("endpoint.back", url=self._config.base_url)
        self._down = down

    def _spend_out(self) -> None:
        if not self._spent:
            logger.warning("endpoint.spent", tokens=self.usage.tokens, money=round(self.usage.money, 6))
        self._spent = True


def _is_of_another_form(failure: Failure) -> bool:
    """Tells whether the endpoint may take the question in another form."""
    about_template = failure.status == 500 and any(word in failure.detail.lower() for word in ("template", "role"))
    return failure.kind == "unreadable" or failure.status in _FALLS_BACK or about_template
