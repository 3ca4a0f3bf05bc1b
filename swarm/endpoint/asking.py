"""A question or a dialogue -> the body of one request, and what that costs at most. Pure."""

from __future__ import annotations

from itertools import chain, cycle
from typing import Any

from swarm.endpoint.config import EndpointConfig, Form
from swarm.endpoint.usage import Tokens
from swarm.instruction import OURS, Asking
from swarm.types import Dialogue

TEMPLATE_TOKENS = 256
"""Most tokens that a chat template adds to the own texts of two turns."""
_BYTES_PER_TOKEN = 3
PROBE = "What is 1 + 1?"
PROBE_TOKENS = 16


def turns(form: Form, prompt: str | Dialogue, asking: Asking = OURS) -> tuple[str, ...]:
    """Returns the texts of a prompt, in their order: of a chat the turns, else one text."""
    question, later = (prompt.question, prompt.turns) if isinstance(prompt, Dialogue) else (prompt, ())
    if form == "completions":
        said = (f"{turn.text}{asking.reply_as_plain_text(turn.reply)}" for turn in later)
        return ("".join((asking.as_plain_text(question), *said)),)
    first = asking.turns(question) if form == "chat" else (asking.in_one_turn(question),)
    return (*first, *chain.from_iterable((turn.text, turn.reply) for turn in later))


def request_body(
    config: EndpointConfig, form: Form, prompt: str | Dialogue, max_tokens: int | None = None
) -> dict[str, Any]:
    """Returns one request for one reply: neither `n`, `seed` nor `logprobs`, which not every server knows."""
    texts = turns(form, prompt, config.asking)
    roles = chain(("system",) if form == "chat" else (), cycle(("user", "assistant")))
    body: dict[str, Any] = {"model": config.model}
    if form == "completions":
        body["prompt"] = texts[0]
    else:
        body["messages"] = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    body[config.max_tokens_field] = max_tokens or config.max_tokens
    optional = {"temperature": config.temperature, "top_p": config.top_p, "stop": list(config.stop) or None}
    return {**body, **{name: value for name, value in optional.items() if value is not None}, **config.extra}


def estimated(text: str) -> int:
    """Returns tokens of a text that nobody counted."""
    return -(-_size(text) // _BYTES_PER_TOKEN)


def estimate_of(form: Form, prompt: str | Dialogue, max_tokens: int, asking: Asking = OURS) -> Tokens:
    """Estimates the tokens that a request probably costs at most, for limits that correct themselves."""
    return Tokens(sum(map(estimated, turns(form, prompt, asking))), max_tokens)


def worst_case(form: Form, prompt: str | Dialogue, max_tokens: int, asking: Asking = OURS) -> Tokens:
    """Bounds the tokens of a request: no tokenizer of these models makes more tokens of a text than it has bytes."""
    texts = turns(form, prompt, asking)
    return Tokens(sum(map(_size, texts)) + TEMPLATE_TOKENS * -(-len(texts) // 2), max_tokens)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
