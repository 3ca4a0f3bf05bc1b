"""What an endpoint is sent for a question, what that may cost, and what its reply says. Pure; it is a stranger.

question | Dialogue ─turns─▶ body of a request
bytes ─JSON─▶ first choice ─▶ text ─without the prompt, if it begins with it─▶ cut ─▶ Reply
  of another form: Failure `unreadable`
"""

from __future__ import annotations

import re
from itertools import chain, cycle
from typing import Annotated, Any

import msgspec

from swarm import forms
from swarm.harmless import quoted
from swarm.instruction import OURS, Asking
from swarm.remote.endpoint_config import EndpointConfig, Form
from swarm.remote.outcomes import Failure, Reply, Tokens
from swarm.types import Completion, Dialogue

TEMPLATE_TOKENS = 256
"""Most tokens that a chat template adds to the own texts of two turns."""
FINISHED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call")
"""Names of `finish_reason` for a reply that the model ended."""
_BYTES_PER_TOKEN = 3
_MOST_TOKENS = 10**9
_MARKS_OF_A_TURN = 1_000
"""Most characters of a template's marks around a turn of a prompt that a reply begins with."""
_OVERHEAD, _BYTES_PER_CHARACTER = 2**20, 12
"""Bytes of a reply; JSON writes a character outside of Unicode's first plane as two escapes."""

_TOKEN = r"<\|[^|<>\s]{1,40}\|>|</?s>|<bos>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>"
"""Marks of chat templates."""
_MARKS = rf"((?:{_TOKEN}|\b(?:system|user|assistant|model)\b:?(?=\s)|\s)*)"
"""Between a prompt's turns: marks, or their roles alone where the marks are left out of a text."""


class _Part(msgspec.Struct):
    text: Any = None


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None
    """None: a model that wrote nothing, or reasoning alone."""
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message)
    """Of a chat."""
    text: str | None = None
    """Of plain completions."""
    finish_reason: Any = None


class _Replied(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: Any = None


# ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────────
def turns(form: Form, prompt: str | Dialogue, asking: Asking = OURS) -> tuple[str, ...]:
    """Returns the texts of a prompt, in their order: of a chat the turns, else one text."""
    question, later = (prompt.question, prompt.turns) if isinstance(prompt, Dialogue) else (prompt, ())
    if form == "completions":
        said = (f"{turn.text}{asking.reply_as_plain_text(turn.reply)}" for turn in later)
        return ("".join((asking.as_plain_text(question), *said)),)
    first = asking.turns(question) if form == "chat" else (asking.in_one_turn(question),)
    return (*first, *chain.from_iterable((turn.text, turn.reply) for turn in later))


def path_of(form: Form) -> str:
    """Returns where such requests go, below the base URL."""
    return "/completions" if form == "completions" else "/chat/completions"


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


def cost_of(form: Form, prompt: str | Dialogue, max_tokens: int, asking: Asking = OURS) -> Tokens:
    """Bounds the tokens of a request: no tokenizer of these models makes more tokens of a text than it has bytes."""
    texts = turns(form, prompt, asking)
    return Tokens(sum(map(_size, texts)) + TEMPLATE_TOKENS * -(-len(texts) // 2), max_tokens)


def _estimated(text: str) -> int:
    """Returns tokens of a text that nobody counted."""
    return -(-_size(text) // _BYTES_PER_TOKEN)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


# ── what comes back ─────────────────────────────────────────────────────────────────────────────────────────────────
def most_bytes(config: EndpointConfig) -> int:
    return _OVERHEAD + _BYTES_PER_CHARACTER * config.characters


def read_reply(body: bytes, config: EndpointConfig, form: Form, prompt: str | Dialogue) -> Reply | Failure:
    """Reads the answer to one request: a reply, or why it is none."""
    try:
        reply = forms.decode(body, _Replied)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        shown = quoted(body[:80].decode("utf-8", "replace"))
        return Failure("unreadable", f"a reply of another form: {error}: {shown}", billed=True, status=200)
    choice = reply.choices[0]
    whole_text, reasoning = _texts(choice, form)
    text, beyond = _cut(whole_text, form, prompt, config)
    rest = without_prompt(text, form, prompt, config.asking)
    kept = f"<think>\n{reasoning}\n</think>\n\n{rest}" if reasoning and config.reasoning == "keep" else rest
    whole = len(kept) <= config.characters and not beyond
    finished = whole and choice.finish_reason in FINISHED
    spent, estimated = _spent(reply.usage, form, prompt, config.asking, reasoning + rest + beyond)
    completion = Completion(kept[: config.characters], finished)
    return Reply(completion, spent, estimated)


def _spent(usage: Any, form: Form, prompt: str | Dialogue, asking: Asking, written: str) -> tuple[Tokens, int]:
    """Returns the tokens of a request, and how many of them are estimated: where the server does not count.

    Args:
        written: all that the model wrote, with what was left out.
    """
    counted = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    guessed = sum(map(_estimated, turns(form, prompt, asking))), _estimated(written)
    spent = Tokens(*(guess if count is None else count for count, guess in zip(counted, guessed, strict=True)))
    return spent, sum(guess for count, guess in zip(counted, guessed, strict=True) if count is None)


def _cut(text: str, form: Form, prompt: str | Dialogue, config: EndpointConfig) -> tuple[str, str]:
    """Parts a reply into what can be kept or trimmed and the rest: patterns take a hundred times what they read."""
    asked = turns(form, prompt, config.asking)
    most = config.characters + sum(map(len, asked)) + _MARKS_OF_A_TURN * (1 + len(asked))
    return text[:most], text[most:]


def without_prompt(text: str, form: Form, prompt: str | Dialogue, asking: Asking = OURS) -> str:
    """Returns the reply itself, of a server that repeats the prompt in front of it, as `transformers serve` may.

    How a server renders a chat is not known here. So a prompt is the turns' texts in their order with nothing but marks
    of templates around them, one of which there must be: a model may begin with the question's words by itself. A
    template may leave out the system turn.
    """
    texts = turns(form, prompt, asking)
    if form == "completions":
        return text.removeprefix(texts[0])
    system = f"(?:{re.escape(texts[0])}{_MARKS})?" if form == "chat" else ""
    question, *later = texts[1:] if form == "chat" else texts
    end, marked = 0, False
    # one turn after another: a single pattern for all of them could be tried in very many ways
    for pattern in (system + re.escape(question), *map(re.escape, later), ""):
        if not (found := re.compile(_MARKS + pattern).match(text, end)):
            return text
        end, marked = found.end(), marked or any((marks or "").strip() for marks in found.groups())
    return text[end:] if marked else text


def _texts(choice: _Choice, form: Form) -> tuple[str, str]:
    """Returns the text, and what the server gives apart as reasoning."""
    if form == "completions":
        return choice.text or "", ""
    message = choice.message
    content, reasoning = message.content, message.reasoning_content or message.reasoning
    if isinstance(content, list):
        content = "".join(part.text for part in content if isinstance(part.text, str))
    return content or "", reasoning if isinstance(reasoning, str) else ""


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
