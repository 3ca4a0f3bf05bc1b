"""A reply's bytes -> its text and what it cost, or why it is none. Pure; what replies is a stranger.

bytes ─JSON─▶ first choice ─▶ text ─without the prompt, if it begins with it─▶ cut, no lone surrogates ─▶ UsableReply
  any "no": Failure `unreadable`
"""

from __future__ import annotations

import json
import re
from typing import Any

from swarm.endpoint.asking import turns
from swarm.endpoint.config import EndpointConfig, Form
from swarm.endpoint.outcomes import Failure, UsableReply
from swarm.harmless import quoted
from swarm.instruction import OURS, Asking
from swarm.types import Dialogue

FINISHED = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"})
"""Names of `finish_reason` for a reply that the model ended."""
_MOST_TOKENS = 10**9
_MARKS_OF_A_TURN = 1_000
"""Most characters of a template's marks around a turn of a prompt that a reply begins with."""

_TOKEN = r"<\|[^|<>\s]{1,40}\|>|</?s>|<bos>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>"
"""Marks of chat templates."""
_MARKS = rf"((?:{_TOKEN}|\b(?:system|user|assistant|model)\b:?(?=\s)|\s)*)"
"""Between a prompt's turns: marks, or their roles alone where the marks are left out of a text."""


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    pass


def read_reply(body: bytes, config: EndpointConfig, form: Form, prompt: str | Dialogue) -> UsableReply | Failure:
    """Reads the answer to one request: a reply, or why it is none."""
    try:
        reply = _object(_json(body), "the reply")
        choice = _object(_first(reply.get("choices")), "a choice")
        whole_text, reasoning = _texts(choice, form)
        text, beyond = _cut(whole_text, form, prompt, config)
        rest = without_prompt(text, form, prompt, config.asking)
        kept = f"<think>\n{reasoning}\n</think>\n\n{rest}" if reasoning and config.reasoning == "keep" else rest
        whole = len(kept) <= config.characters and not beyond
        usage = reply.get("usage")
        return UsableReply(
            text=_encodable(kept[: config.characters]),
            finished=whole and choice.get("finish_reason") in tuple(FINISHED),
            tokens_in=_count(usage, "prompt_tokens"),
            tokens_out=_count(usage, "completion_tokens"),
            written=_encodable(reasoning + rest + beyond),
            trimmed=rest != text,
        )
    except _Unreadable as error:
        return Failure("unreadable", str(error), billed=True, status=200)


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


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _Unreadable(f"a reply that is no JSON: {quoted(body[:80].decode('utf-8', 'replace'))}") from None


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unreadable(f"{what} is no object: {quoted(value)}")
    return value


def _first(choices: Any) -> Any:
    if not isinstance(choices, list) or not choices:
        raise _Unreadable(f"a reply without choices: {quoted(choices)}")
    return choices[0]


def _texts(choice: dict[str, Any], form: Form) -> tuple[str, str]:
    """Returns the text, and what the server gives apart as reasoning."""
    if form == "completions":
        return _text(choice.get("text")), ""
    message = _object(choice.get("message"), "a message")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return _text(message.get("content")), reasoning if isinstance(reasoning, str) else ""


def _text(content: Any) -> str:
    """Returns a content's text; a model that wrote nothing, or reasoning alone, leaves None."""
    if content is None:
        return ""
    if isinstance(content, list):
        texts = [_object(part, "a part").get("text") for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        raise _Unreadable(f"a content that is no text: {quoted(content)}")
    return content


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def _encodable(text: str) -> str:
    """JSON may hold halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not _is_encodable(text) else text


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
