"""A worker's completions from a generation server. Implements swarm.types.RemoteGenerator and Generator.

ask      copy the adapter, write its folder, encode prompts           Compute: nothing else changes the weights then
wait     load it there, a request for each prompt, again if need be   the event loop: Compute is free
groups   hold a part against the trainer's own log-probs, decode      Compute

server away      tried again, with pauses, until nothing usable came for the patience; then an error, or, where the
                 settings say so, the node samples with the very adapter that it had copied
server refuses   an error at once
server is wrong  a reply that cannot be of this policy is asked for again, some times; then an error
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from statistics import fmean

import anyio

from swarm.algo.seeds import derive_seed
from swarm.endpoint.limits import backoff
from swarm.endpoint.outcomes import Failure
from swarm.errors import GenerationServerError
from swarm.logs import get_logger
from swarm.policy.adapter_version import AdapterVersion, Claimed
from swarm.policy.generator import ModelGenerator
from swarm.policy.prompt import decode_completion
from swarm.policy.settings import GrpoConfig
from swarm.policy.stops import StopStrings
from swarm.served.adapters import Adapters
from swarm.served.client import AT_ONCE
from swarm.served.config import FIRST_PAUSE, LONGEST_PAUSE, ServerConfig
from swarm.served.replies import Card, ExpectedReply, WrittenCompletion
from swarm.served.server import Server, is_lost, sampling_fields
from swarm.types import Bill, Completion, Dialogue, GenerationCall, Groups, Ready, RemoteUse

logger = get_logger(__name__)

MOST_GAP = 0.2
"""Mean nats between the server's log-probs and the trainer's: bf16 makes some hundredths, another policy or another
temperature tenths and more. Weights take care of what is below."""
CHECKED = 8
"""Completions of a call that are held against the trainer's log-probs: one of each of so many prompts."""
MOST_UNUSABLE = 3
"""Replies to one request that are of another form, or cannot be of this policy."""
_NO_ROOM = Completion(text="", finished=False, token_ids=(), logprobs=())


class ServedGenerator:
    """Generates one node's completions at a server: `ask` and `groups` run in its Compute, `wait` on its event loop."""

    def __init__(
        self,
        own: ModelGenerator,
        config: GrpoConfig,
        server: ServerConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            own: encodes prompts, and generates where the server is away and the settings say so.
        """
        self.name, self.tokenizer = own.name, own.tokenizer
        self.repeats = False
        self.bill: Bill | None = None
        self.own, self.grpo, self.config = own, config, server
        self.adapters = Adapters(server.folder, server.prefix)
        self.server = Server(server)
        self.sampling = sampling_fields(config, own.model.eos_ids)
        self.stops = StopStrings(own.model.tokenizer, config.stop) if config.stop else None
        self.clock = clock
        self.context = own.model.context
        """The smaller one of trainer and server."""
        self._greeted = self._away = False
        self._retries, self._gaps, self._was_away = 0, list[float](), False

    def has_room(self, prompt: str) -> bool:
        """Tells whether model and server both have room for a prompt."""
        return len(self.own.encode(prompt)) + self.own.model.max_new_tokens <= self.context

    def ask(self, call: GenerationCall) -> AskedServer:
        """Prepares a request to the server. Raises ModelError: diverged; GenerationServerError: the adapter cannot be
        written."""
        return AskedServer(self, call, [self.own.encode(prompt) for prompt in call.prompts])

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> Groups:
        """Generates in all three steps at once, for a caller without an event loop. Implements Generator."""
        asked = self.ask(GenerationCall(prompts, group_size, seed, ready))
        asyncio.run(asked.wait())
        return asked.groups()

    def take_use(self) -> RemoteUse:
        """Returns how the server was used since the last call, and begins anew. Implements RemoteGenerator."""
        use = RemoteUse(self._retries, fmean(self._gaps) if self._gaps else None, self._was_away)
        self._retries, self._gaps, self._was_away = 0, [], False
        return use

    # ── what its calls tell it ──────────────────────────────────────────────────────────────────────────────────────
    def check(self) -> None:
        """Look at the server before a run begins; one that is away is waited for in the first round.

        Raises:
            GenerationServerError: it is there, and refuses.
        """
        failure = asyncio.run(self.greet())
        if failure and failure.kind in ("refused", "declined"):
            raise GenerationServerError(f"generation server {self.config.url}: {failure.detail}")
        if failure:
            self.failed(failure, first=True)

    async def greet(self) -> Failure | None:
        """Once in a life: what model it has, and adapters of a former life, which are unloaded."""
        if self._greeted:
            return None
        cards = await self.server.models()
        if isinstance(cards, Failure):
            return cards
        for name in self.adapters.of_former_lives([card.id for card in cards]):
            await self.server.unload(name)
        self._take_base(next((card for card in cards if card.parent is None), Card("")))
        self._greeted = True
        return None

    def _take_base(self, base: Card) -> None:
        self.context = min(self.own.model.context, base.max_model_len or self.own.model.context)
        logger.info("server.ready", url=self.config.url, model=base.id, context=self.context)

    def failed(self, failure: Failure, *, first: bool = False) -> None:
        """A request has failed, and will be repeated."""
        self._retries += not first
        if failure.kind in ("down", "late", "throttled") and not self._away:
            self._away = True
            logger.warning("server.away", url=self.config.url, detail=failure.detail)

    def replied(self) -> None:
        """A request was of use."""
        if self._away:
            logger.info("server.back", url=self.config.url)
        self._away = False

    def measured(self, gap: float) -> None:
        """Mean |trainer - server| log-prob of one call."""
        self._gaps.append(gap)

    def plays_on(self, error: GenerationServerError) -> None:
        """The server is away, and the node generates by itself."""
        self._was_away = True
        logger.warning("server.own", url=self.config.url, detail=str(error))

    async def tidy(self) -> None:
        """Have the server forget what is of no use any more; what it does not now, it does the next time."""
        for version in self.adapters.superseded():
            if await self.server.unload(version.name):
                self.adapters.remove(version)


class AskedServer:
    """One call. Implements swarm.types.RemoteCompletions."""

    def __init__(self, generator: ServedGenerator, call: GenerationCall, prompts: Sequence[list[int]]) -> None:
        self._of = generator
        self._call = call
        self._prompts = prompts
        self._version = AdapterVersion(generator.own, generator.grpo)
        self._published = generator.adapters.put(self._version.digest, self._version.write)
        self._written: dict[int, list[WrittenCompletion]] = {}
        self._error: GenerationServerError | None = None
        self._is_loaded = False
        self._own = False
        self._limiter: anyio.CapacityLimiter
        self._loading: anyio.Lock
        self._patient_until = 0.0

    # ── wait ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def wait(self) -> None:
        """Waits for all completions; plays on alone where the server is away and the settings say so."""
        with self._of.adapters.using(self._published):
            await self._ask_for_all()
        if self._error and not (self._error.away and self._of.config.plays_on):
            raise self._error
        if self._error:
            self._own = True
            self._of.plays_on(self._error)
            return
        await self._of.tidy()

    async def _ask_for_all(self) -> None:
        self._limiter, self._loading = anyio.CapacityLimiter(AT_ONCE), anyio.Lock()
        self._extend()
        async with anyio.create_task_group() as tasks:
            for number in range(len(self._prompts)):
                tasks.start_soon(self._ask_for, number, tasks.cancel_scope)

    def _extend(self) -> None:
        """Something usable has come: the patience begins anew."""
        self._patient_until = self._of.clock() + self._of.config.patience

    async def _ask_for(self, number: int, all_of_them: anyio.CancelScope) -> None:
        failures = unusable = 0
        while isinstance(outcome := await self._outcome(number), Failure):
            failures += 1
            unusable += outcome.kind == "unreadable"
            pause = self._pause(number, failures, outcome)
            if self._error or self._is_over(outcome, unusable, pause):
                self._error = self._error or self._error_of(outcome)
                all_of_them.cancel()
                return
            self._of.failed(outcome)
            await anyio.sleep(pause)
        self._written[number] = outcome
        self._of.replied()
        self._extend()

    def _pause(self, number: int, failures: int, failure: Failure) -> float:
        seed = self._of.config.seed
        return backoff(FIRST_PAUSE, LONGEST_PAUSE, failures, seed, self._published.name, number, asked=failure.asked)

    def _is_over(self, failure: Failure, unusable: int, pause: float) -> bool:
        if failure.kind in ("refused", "declined"):
            return True
        return unusable >= MOST_UNUSABLE or self._of.clock() + pause >= self._patient_until

    def _error_of(self, failure: Failure) -> GenerationServerError:
        away = failure.kind in ("down", "late", "throttled")
        config = self._of.config
        what = (
            f"no usable reply for {config.patience:g} s, at last: {failure.detail}. Start it again and the node again, "
            "give it longer (SWARM_GENERATION_SERVER_PATIENCE), or let the node generate by itself meanwhile "
            "(SWARM_GENERATION_SERVER_AWAY=own)"
        )
        return GenerationServerError(f"generation server {config.url}: {what if away else failure.detail}", away=away)

    async def _outcome(self, number: int) -> list[WrittenCompletion] | Failure:
        """Completions to one prompt; none where its context has no room."""
        if failure := await self._load():
            return failure
        expected = self._expected(number)
        if expected.limit <= 0:
            return []
        seed = derive_seed(self._call.seed, "served", number)
        outcome = await self._of.server.complete(expected, self._of.sampling, seed, self._limiter)
        if isinstance(outcome, Failure) and is_lost(outcome, self._published.name):
            self._is_loaded = False
            return outcome._replace(kind="down")
        return outcome

    async def _load(self) -> Failure | None:
        async with self._loading:
            if self._is_loaded:
                return None
            failure = await self._of.greet() or await self._of.server.load(
                self._published.name, str(self._published.folder)
            )
            self._is_loaded = failure is None
            return failure

    def _expected(self, number: int) -> ExpectedReply:
        model, prompt = self._of.own.model, self._prompts[number]
        return ExpectedReply(
            name=self._published.name,
            prompt_ids=prompt,
            group_size=self._call.group_size,
            limit=min(model.max_new_tokens, self._of.context - len(prompt)),
            vocabulary=model.module.get_input_embeddings().num_embeddings,
            eos_ids=model.eos_ids,
            stops=self._of.stops is not None,
        )

    # ── what came of it ─────────────────────────────────────────────────────────────────────────────────────────────
    def groups(self) -> Groups:
        """Returns the groups. Raises GenerationServerError: the log-probs cannot be of the policy that was asked."""
        if self._own:
            call = self._call
            own = self._version.generator()
            return own.generate(call.prompts, group_size=call.group_size, seed=call.seed, ready=call.ready)
        self._check()
        return [self._group(number) for number in range(len(self._prompts))]

    def _check(self) -> None:
        numbers = [number for number in sorted(self._written) if self._written[number]]
        seed = self._call.seed
        claims = [
            Claimed(self._prompts[number], *self._written[number][(seed + number) % self._call.group_size])
            for number in numbers[:: max(1, len(numbers) // CHECKED)][:CHECKED]
        ]
        if not claims:
            return
        gap = self._version.gap(claims)
        if gap != gap:
            raise self._of.own.diverged()
        self._of.measured(gap)
        if gap > MOST_GAP:
            raise GenerationServerError(
                f"generation server {self._of.config.url}: expected completions of this node's policy, whose log-probs "
                f"differ by {MOST_GAP} nats at most on the mean, got {gap:.3f} over {len(claims)} completions by "
                f"{self._published.name}. Does it serve the very model that the node has (MODEL_NAME), and, at another "
                "temperature than 1, with --logprobs-mode processed_logprobs?"
            )

    def _group(self, number: int) -> tuple[Completion, ...]:
        if written := self._written[number]:
            return tuple(map(self._completion, written))
        nothing = () if isinstance(self._call.prompts[number], Dialogue) else (_NO_ROOM,) * self._call.group_size
        if nothing:
            logger.warning("generate.prompt_too_long", tokens=len(self._prompts[number]), context=self._of.context)
        return nothing

    def _completion(self, written: WrittenCompletion) -> Completion:
        model, (ids, logprobs) = self._of.own.model, written
        end = self._of.stops.end(ids, 0) if self._of.stops else None
        ids, logprobs = ids[:end], logprobs[:end]
        ended = ids[-1] in model.eos_ids
        text = decode_completion(model.tokenizer, list(ids[:-1] if ended else ids))
        return Completion(text, ended or end is not None, ids, logprobs)
