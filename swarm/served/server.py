"""Asks a generation server, in vLLM's words: for its models, an adapter under a name, completions to a prompt.

    GET  /v1/models                   base and adapters, with the folder of each
    POST /v1/load_lora_adapter        a folder under a name; only where VLLM_ALLOW_RUNTIME_LORA_UPDATING is true
    POST /v1/unload_lora_adapter
    POST /v1/completions              prompt as ids; ids and log-probs back

Every field that a model's generation config could set at the server is said, so that its defaults count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from swarm.endpoint.outcomes import Failure
from swarm.policy.settings import GrpoConfig
from swarm.served.client import ServerAnswer, ServerClient
from swarm.served.config import API, ServerConfig
from swarm.served.replies import Card, ExpectedReply, WrittenCompletion, read_completions, read_models

_SHORT = 2**22
"""Bytes of any other reply than completions."""
_LOADING = 120.0
"""Most seconds in which a server reads an adapter."""
_LOOKING = 30.0
_START = "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True (docs/generation-server.md)"


def sampling_fields(config: GrpoConfig, eos_ids: frozenset[int]) -> dict[str, Any]:
    """Returns how the node samples, in the server's words: the fields of every request."""
    return {
        "temperature": config.temperature,
        "top_p": config.top_p,
        "top_k": config.top_k,
        "min_p": config.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": list(config.stop),
        "include_stop_str_in_output": True,
        "stop_token_ids": sorted(eos_ids),
        "logprobs": 0,  # of the sampled token alone
        "return_token_ids": True,
        "stream": False,
        "add_special_tokens": False,
    }


class Server:
    """Asks; holds no state."""

    def __init__(self, config: ServerConfig) -> None:
        self._client = ServerClient(config.url, config.key)
        self._timeout = config.request_timeout

    async def models(self) -> list[Card] | Failure:
        """Returns the server's models."""
        answer = await self._ask("GET", "/models", None, _LOOKING)
        return answer if isinstance(answer, Failure) else read_models(answer.body)

    async def load(self, name: str, path: str) -> Failure | None:
        """Have it read an adapter's folder; done too where it has it under this name."""
        answer = await self._ask("POST", "/load_lora_adapter", {"lora_name": name, "lora_path": path}, _LOADING)
        if isinstance(answer, ServerAnswer):
            return None
        if answer.status == 400 and await self._has(name, path):
            return None  # the reply to an earlier try was lost
        return _of_loading(answer)

    async def _has(self, name: str, path: str) -> bool:
        cards = await self.models()
        return not isinstance(cards, Failure) and any(card.id == name and card.root in (path, None) for card in cards)

    async def unload(self, name: str) -> bool:
        """Have it forget an adapter; whether it has."""
        answer = await self._ask("POST", "/unload_lora_adapter", {"lora_name": name}, _LOOKING)
        return isinstance(answer, ServerAnswer) or answer.status == 404

    async def complete(
        self, expected: ExpectedReply, sampling: Mapping[str, Any], seed: int, limiter: anyio.CapacityLimiter
    ) -> list[WrittenCompletion] | Failure:
        """Completions to one prompt by one adapter."""
        body = {
            "model": expected.name,
            "prompt": list(expected.prompt_ids),
            "n": expected.group_size,
            "max_tokens": expected.limit,
            "seed": seed,
            **sampling,
        }
        answer = await self._ask("POST", "/completions", body, self._timeout, expected.most_bytes, limiter)
        return answer if isinstance(answer, Failure) else read_completions(answer.body, expected)

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        seconds: float,
        most_bytes: int = _SHORT,
        limiter: anyio.CapacityLimiter | None = None,
    ) -> ServerAnswer | Failure:
        answer = await self._client.ask(
            method, API + path, body, seconds=min(seconds, self._timeout), most_bytes=most_bytes, limiter=limiter
        )
        return answer if isinstance(answer, ServerAnswer) else self._client.hidden(answer)


def is_lost(failure: Failure, name: str) -> bool:
    """Tells whether completions were refused because the server does not know the adapter, as after a restart."""
    return failure.status == 404 and name in failure.detail


def _of_loading(failure: Failure) -> Failure:
    """Returns what the refusal of an adapter means: vLLM says 404 for a folder that it cannot read, and just the same
    where it loads no adapters at all; 500 for an adapter that does not suit it."""
    if failure.status == 404 and "adapter" not in failure.detail.lower():
        return failure._replace(kind="refused", detail=f"{failure.detail}: it loads no adapters; {_START}")
    if failure.status == 404:
        hint = "it cannot read that folder: set SWARM_ADAPTER_FOLDER to one that node and server see under one path"
        return failure._replace(kind="refused", detail=f"{failure.detail}: {hint}")
    return failure._replace(kind="unreadable") if failure.status == 500 else failure
