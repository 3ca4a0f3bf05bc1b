"""What a generation server is sent for a prompt, and the ids and log-probs that it replies. Pure; it may reply all.

    bytes ─JSON of vLLM's /v1/completions─▶ choices ─each held against what was asked─▶ Reply | Failure

Believed is only what could be of the policy that was asked: the adapter's name, the very prompt, as many completions as
were asked for, ids of the vocabulary, a log-prob each, and an end that is an end of text, a stop string or the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from swarm import forms
from swarm.harmless import printable, quoted
from swarm.policy.settings import GrpoConfig
from swarm.remote.outcomes import Failure, Reply
from swarm.types import Completion

LEAST_LOGPROB = -1000.0
"""No sampled token is less likely; vLLM says -9999 for none at all."""
_ABOVE_ZERO = 1e-3
"""What rounding may put on top of a log-prob of 0."""


@dataclass(frozen=True)
class ExpectedReply:
    """Says what a reply has to hold."""

    name: str
    """Name of the adapter."""
    prompt_ids: Sequence[int]
    group_size: int
    limit: int
    """Tokens of the longest completion."""
    vocabulary: int
    """Ids are below it."""
    eos_ids: frozenset[int]
    stops: bool
    """Whether strings end a completion as well."""

    @property
    def most_bytes(self) -> int:
        """Returns the most bytes of a whole reply: of each choice its prompt, and of each token id, log-prob and text,
        escaped."""
        return 2**20 + self.group_size * (len(self.prompt_ids) * 16 + self.limit * 512)


class _LogProbs(msgspec.Struct):
    token_logprobs: list[float]


class _Choice(msgspec.Struct):
    index: int
    token_ids: list[int]
    prompt_token_ids: list[int]
    logprobs: _LogProbs
    finish_reason: str


class _Replied(msgspec.Struct):
    model: str
    choices: list[_Choice]


class Card(msgspec.Struct):
    """A model or an adapter that a server has."""

    id: str
    root: str | None = None
    parent: str | None = None
    max_model_len: int | None = None


class _Cards(msgspec.Struct):
    data: list[Card]


class _Unusable(Exception):  # noqa: N818 - never leaves this module
    pass


def sampling_fields(config: GrpoConfig, eos_ids: frozenset[int]) -> dict[str, Any]:
    """Returns how the node samples, in the server's words: the fields of every request.

    Every field that a model's generation config could set at the server is said, so that its defaults count for
    nothing.
    """
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


def read_models(body: bytes) -> list[Card] | Failure:
    """Reads the list of a server's models."""
    try:
        return forms.decode(body, _Cards).data
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Failure("unreadable", f"a list of models that is none: {printable(str(error))[:200]}")


def read_completions(body: bytes, expected: ExpectedReply) -> Reply | Failure:
    """Returns the completions to one prompt, in the order of their seeds: ids, an end of text included, no text yet."""
    try:
        reply = forms.decode(body, _Replied)
        if reply.model != expected.name:
            raise _Unusable(f"expected completions of {expected.name}, got those of {quoted(reply.model)}")
        chosen = sorted(reply.choices, key=lambda choice: choice.index)
        if [choice.index for choice in chosen] != list(range(expected.group_size)):
            raise _Unusable(f"expected {expected.group_size} completions, got {len(chosen)}")
        return Reply(tuple(_written(choice, expected) for choice in chosen))
    except _Unusable as error:
        return Failure("unreadable", str(error))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Failure("unreadable", f"a reply of another form: {printable(str(error))[:200]}")


def _written(choice: _Choice, expected: ExpectedReply) -> Completion:
    if choice.prompt_token_ids != list(expected.prompt_ids):
        raise _Unusable(
            f"expected completions to a prompt of {len(expected.prompt_ids)} tokens, got those to another of "
            f"{len(choice.prompt_token_ids)}"
        )
    ids, logprobs = choice.token_ids, choice.logprobs.token_logprobs
    if not ids or len(ids) > expected.limit or len(ids) != len(logprobs):
        raise _Unusable(
            f"expected 1 to {expected.limit} tokens with a log-prob each, got {len(ids)} and {len(logprobs)} log-probs"
        )
    if wrong := [token for token in ids if not 0 <= token < expected.vocabulary]:
        raise _Unusable(f"expected token ids below {expected.vocabulary}, got {wrong[0]}")
    if odd := [value for value in logprobs if not LEAST_LOGPROB < value <= _ABOVE_ZERO]:
        raise _Unusable(f"expected log-probs of sampled tokens, got {odd[0]}")
    _refuse_end(choice, expected)
    known = tuple(min(0.0, value) for value in logprobs)
    return Completion("", finished=False, token_ids=tuple(ids), logprobs=known)


def _refuse_end(choice: _Choice, expected: ExpectedReply) -> None:
    """A completion ends at the first end of text, at a stop string, or at the limit, and nowhere else."""
    *before, last = choice.token_ids
    if not expected.eos_ids.isdisjoint(before):
        raise _Unusable("expected nothing behind an end of text, got a completion that goes on")
    ended = last in expected.eos_ids or len(choice.token_ids) == expected.limit
    if not ended and not (expected.stops and choice.finish_reason == "stop"):
        raise _Unusable(
            f"expected a completion up to its end of text or {expected.limit} tokens, got {len(choice.token_ids)} "
            f"({quoted(choice.finish_reason)}): does the server have limits of its own? Start it with "
            "--generation-config vllm, and with a --max-model-len that prompt and completion fit into"
        )
