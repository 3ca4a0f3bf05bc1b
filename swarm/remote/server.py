"""A worker's completions from a generation server: vLLM, in a process of its own, with the worker's adapter.

    GET  /v1/models                   base and adapters, with the folder of each
    POST /v1/load_lora_adapter        a folder under a name; only where VLLM_ALLOW_RUNTIME_LORA_UPDATING is true
    POST /v1/unload_lora_adapter
    POST /v1/completions              prompt as ids; ids and log-probs back

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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import anyio

from swarm.algo.seeds import derive_seed
from swarm.errors import GenerationServerError
from swarm.logs import get_logger
from swarm.policy.adapter_version import AdapterVersion, Claimed
from swarm.policy.generate import StopStrings
from swarm.policy.generator import ModelGenerator
from swarm.policy.policy import JoinedPolicy
from swarm.policy.prompt import decode_completion
from swarm.policy.settings import GrpoConfig
from swarm.remote.client import HttpClient
from swarm.remote.generation import Generation, RemoteWriter, Request, carry_out
from swarm.remote.limits import ServerLimits
from swarm.remote.outcomes import AWAY, FINAL, Failure, Reply, Tokens
from swarm.remote.server_adapters import Adapters
from swarm.remote.server_config import API, ServerConfig
from swarm.remote.server_forms import Card, ExpectedReply, read_completions, read_models, sampling_fields
from swarm.types import Completion, Dialogue, GenerationCall, Groups, RemoteUse

logger = get_logger(__name__)

MOST_GAP = 0.2
"""Mean nats between the server's log-probs and the trainer's: bf16 makes some hundredths, another policy or another
temperature tenths and more. Weights take care of what is below."""
CHECKED = 8
"""Completions of a call that are held against the trainer's log-probs: one of each of so many prompts."""
_SHORT = 2**22
"""Bytes of any other reply than completions."""
_LOADING, _LOOKING = 120.0, 30.0
"""Most seconds in which a server reads an adapter, and answers anything else."""
_START = "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True (docs/generators.md)"
_NO_ROOM = Completion(text="", finished=False, token_ids=(), logprobs=())


class Server(HttpClient):
    """Asks in vLLM's words; holds no state."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config.url + API, config.key)
        self._timeout = config.request_timeout

    async def models(self) -> list[Card] | Failure:
        """Returns the server's models."""
        answer = await self._short("GET", "/models", None, _LOOKING)
        return answer if isinstance(answer, Failure) else read_models(answer)

    async def load(self, name: str, path: str) -> Failure | None:
        """Have it read an adapter's folder; done too where it has it under this name."""
        answer = await self._short("POST", "/load_lora_adapter", {"lora_name": name, "lora_path": path}, _LOADING)
        if not isinstance(answer, Failure):
            return None
        if answer.status == 400 and await self._has(name, path):
            return None  # the reply to an earlier try was lost
        return _of_loading(answer)

    async def _has(self, name: str, path: str) -> bool:
        cards = await self.models()
        return not isinstance(cards, Failure) and any(card.id == name and card.root in (path, None) for card in cards)

    async def unload(self, name: str) -> bool:
        """Have it forget an adapter; whether it has."""
        answer = await self._short("POST", "/unload_lora_adapter", {"lora_name": name}, _LOOKING)
        return not isinstance(answer, Failure) or answer.status == 404

    async def complete(self, expected: ExpectedReply, sampling: Mapping[str, Any], seed: int) -> Reply | Failure:
        """Completions to one prompt by one adapter."""
        body = {
            "model": expected.name,
            "prompt": list(expected.prompt_ids),
            "n": expected.group_size,
            "max_tokens": expected.limit,
            "seed": seed,
            **sampling,
        }
        most = expected.most_bytes
        answer = await self.ask("POST", "/completions", body, seconds=self._timeout, most_bytes=most)
        return answer if isinstance(answer, Failure) else read_completions(answer, expected)

    async def _short(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> bytes | Failure:
        return await self.ask(method, path, body, seconds=min(seconds, self._timeout), most_bytes=_SHORT)


def _of_loading(failure: Failure) -> Failure:
    """Returns what the refusal of an adapter means: vLLM says 404 for a folder that it cannot read, and just the same
    where it loads no adapters at all; 500 for an adapter that does not suit it."""
    if failure.status == 404 and "adapter" not in failure.detail.lower():
        return failure._replace(kind="refused", detail=f"{failure.detail}: it loads no adapters; {_START}")
    if failure.status == 404:
        hint = "it cannot read that folder: set SWARM_ADAPTER_FOLDER to one that node and server see under one path"
        return failure._replace(kind="refused", detail=f"{failure.detail}: {hint}")
    return failure._replace(kind="unreadable") if failure.status == 500 else failure


class ServedGenerator(RemoteWriter):
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
        self.own, self.grpo, self.config = own, config, server
        self.adapters = Adapters(server.folder, server.prefix)
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

    def take_use(self) -> RemoteUse:
        """Returns how the server was used since the last call, and begins anew."""
        use = RemoteUse(self._retries, fmean(self._gaps) if self._gaps else None, self._was_away)
        self._retries, self._gaps, self._was_away = 0, [], False
        return use

    # ── what its calls tell it ──────────────────────────────────────────────────────────────────────────────────────
    def check(self) -> None:
        """Look at the server before a run begins; one that is away is waited for in the first round.

        Raises:
            GenerationServerError: it is there, and refuses.
        """
        failure = asyncio.run(self._look())
        if failure and failure.kind in FINAL:
            raise GenerationServerError(f"generation server {self.config.url}: {failure.detail}")
        if failure:
            self.heard(failure, False)

    async def _look(self) -> Failure | None:
        async with Server(self.config) as server:
            return await self.greet(server)

    async def greet(self, server: Server) -> Failure | None:
        """Once in a life: what model it has, and adapters of a former life, which are unloaded."""
        if self._greeted:
            return None
        cards = await server.models()
        if isinstance(cards, Failure):
            return cards
        for name in self.adapters.of_former_lives([card.id for card in cards]):
            await server.unload(name)
        base = next((card for card in cards if card.parent is None), Card(""))
        self.context = min(self.own.model.context, base.max_model_len or self.own.model.context)
        logger.info("server.ready", url=self.config.url, model=base.id, context=self.context)
        self._greeted = True
        return None

    def heard(self, outcome: Reply | Failure, is_repeated: bool) -> None:
        """A request has ended: logs once that the server is away, and once that it is back."""
        self._retries += is_repeated
        if isinstance(outcome, Reply):
            if self._away:
                logger.info("server.back", url=self.config.url)
            self._away = False
        elif outcome.kind in AWAY and not self._away:
            self._away = True
            logger.warning("server.away", url=self.config.url, detail=outcome.detail)

    def measured(self, gap: float) -> None:
        """Mean |trainer - server| log-prob of one call."""
        self._gaps.append(gap)

    def plays_on(self, error: GenerationServerError) -> None:
        """The server is away, and the node generates by itself."""
        self._was_away = True
        logger.warning("server.own", url=self.config.url, detail=str(error))


class AskedServer:
    """One call. Implements swarm.types.RemoteCompletions."""

    def __init__(self, generator: ServedGenerator, call: GenerationCall, prompts: Sequence[list[int]]) -> None:
        self._of = generator
        self._call = call
        self._prompts = prompts
        self._version = AdapterVersion(generator.own, generator.grpo)
        self._published = generator.adapters.put(self._version.digest, self._version.write)
        self._written: Groups | None = None
        """None: the node generates by itself."""
        self._is_loaded = False

    # ── wait ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def wait(self) -> None:
        """Waits for all completions; plays on alone where the server is away and the settings say so."""
        of = self._of
        terms, costs = of.config.terms, [Tokens(0, 0)] * len(self._prompts)
        generation = Generation(terms, ServerLimits(), costs, 1, self._call.seed, began=of.clock())
        async with Server(of.config) as server:
            ask = partial(self._ask, server, anyio.Lock())
            with of.adapters.using(self._published):
                reason = await carry_out(generation, ask, of.clock, of.heard)
            written = generation.end(of.clock())
            if reason == "complete":
                self._written = written
                await self._tidy(server)
                return
        error = self._error_of(generation.last_failure or Failure("late", "the first request has no reply yet"))
        if not (error.away and of.config.plays_on):
            raise error
        of.plays_on(error)

    async def _tidy(self, server: Server) -> None:
        """Have the server forget what is of no use any more; what it does not now, it does the next time."""
        for version in self._of.adapters.superseded():
            if await server.unload(version.name):
                self._of.adapters.remove(version)

    def _error_of(self, failure: Failure) -> GenerationServerError:
        away = failure.kind in AWAY
        config = self._of.config
        what = (
            f"no usable reply for {config.patience:g} s, at last: {failure.detail}. Start it again and the node again, "
            "give it longer (SWARM_GENERATION_SERVER_PATIENCE), or let the node generate by itself meanwhile "
            "(SWARM_GENERATION_SERVER_AWAY=own)"
        )
        return GenerationServerError(f"generation server {config.url}: {what if away else failure.detail}", away=away)

    async def _ask(self, server: Server, loading: anyio.Lock, request: Request) -> Reply | Failure:
        """Completions to one prompt; none where its context has no room."""
        async with loading:
            if failure := await self._load(server):
                return failure
        expected = self._expected(request.question)
        if expected.limit <= 0:
            return Reply(())
        seed = derive_seed(self._call.seed, "served", request.question)
        outcome = await server.complete(expected, self._of.sampling, seed)
        if isinstance(outcome, Failure) and outcome.status == 404 and self._published.name in outcome.detail:
            self._is_loaded = False  # the server does not know the adapter any more, as after a restart
            return outcome._replace(kind="down")
        return outcome

    async def _load(self, server: Server) -> Failure | None:
        if self._is_loaded:
            return None
        published = self._published
        failure = await self._of.greet(server) or await server.load(published.name, str(published.folder))
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
        call = self._call
        if self._written is None:
            own = self._version.generator()
            return own.generate(call.prompts, group_size=call.group_size, seed=call.seed, ready=call.ready)
        self._check(self._written)
        return [self._group(number, group) for number, group in enumerate(self._written)]

    def _check(self, written: Groups) -> None:
        numbers = [number for number, group in enumerate(written) if group]
        checked = numbers[:: max(1, len(numbers) // CHECKED)][:CHECKED]
        claims = [self._claim(number, written[number]) for number in checked]
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

    def _claim(self, number: int, group: tuple[Completion, ...]) -> Claimed:
        one = group[(self._call.seed + number) % self._call.group_size]
        return Claimed(self._prompts[number], one.token_ids or (), one.logprobs or ())

    def _group(self, number: int, written: tuple[Completion, ...]) -> tuple[Completion, ...]:
        if written:
            return tuple(map(self._completion, written))
        nothing = () if isinstance(self._call.prompts[number], Dialogue) else (_NO_ROOM,) * self._call.group_size
        if nothing:
            logger.warning("generate.prompt_too_long", tokens=len(self._prompts[number]), context=self._of.context)
        return nothing

    def _completion(self, written: Completion) -> Completion:
        model, ids, logprobs = self._of.own.model, written.token_ids or (), written.logprobs or ()
        end = self._of.stops.end(ids, 0) if self._of.stops else None
        ids, logprobs = ids[:end], logprobs[:end]
        ended = ids[-1] in model.eos_ids
        text = decode_completion(model.tokenizer, list(ids[:-1] if ended else ids))
        return Completion(text, ended or end is not None, ids, logprobs)


def serve(policy: JoinedPolicy, config: GrpoConfig, server: ServerConfig) -> JoinedPolicy:
    """Returns the policy with its generation at a server, which is looked at.

    Raises:
        GenerationServerError: it is there, and refuses.
    """
    assert isinstance(policy.generator, ModelGenerator)
    generator = ServedGenerator(policy.generator, config, server)
    generator.check()
    return JoinedPolicy(generator, policy.trainer)
