"""Puts a question, and what is said later, into a model's prompt format.

Chat models get an instruction and user turns, base models plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from swarm.instruction import OURS, Asking

SWITCH = "enable_thinking"
"""What templates of models that may think call the argument that says whether they do."""
_TURN = "theModelsEarlierTurn"
"""Stands for a turn of the model: one word that no template splits, trims or takes for anything else."""


def encode_prompt(tokenizer: Any, question: str, asking: Asking = OURS) -> list[int]:
    """Token ids of the whole prompt, up to where the model's answer begins."""
    if tokenizer.chat_template is None:
        return _without_end_of_text(tokenizer, tokenizer(asking.as_plain_text(question))["input_ids"])
    return list(tokenizer(_chat_text(tokenizer, question, asking), add_special_tokens=False)["input_ids"])


def switches_thinking_off(tokenizer: Any, asking: Asking = OURS) -> bool:
    """Whether prompts are rendered without thinking because the template has the switch and nobody set it.

    A thought takes hundreds of tokens before the answer begins, and the length of a completion ends before it.
    """
    return SWITCH not in asking.template_args and SWITCH in str(tokenizer.chat_template or "")


def encode_completion(tokenizer: Any, text: str) -> list[int]:
    """Token ids of an external completion as this tokenizer would have written it, without any end-of-text.

    Names of special tokens inside the text stay text: no completion goes on after an end-of-text.
    """
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def decode_completion(tokenizer: Any, token_ids: list[int]) -> str:
    """The text of sampled ids, special tokens left out."""
    text: str = tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def shown_prompt(tokenizer: Any, token_ids: list[int]) -> str:
    """The text of a prompt with its special tokens."""
    text: str = tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def text_behind_a_turn(tokenizer: Any, reply: str, asking: Asking = OURS) -> str | None:
    """What a chat template writes behind a turn of the model that is replied to; None if it does not show the reply."""
    later = [_turn("assistant", _TURN), _turn("user", reply)]
    try:
        _, _, behind = _chat_text(tokenizer, "?", asking, later).partition(_TURN)
    except TemplateError:
        return None
    return behind if behind and reply.strip() in behind else None


def _chat_text(tokenizer: Any, question: str, asking: Asking, later: Sequence[dict[str, str]] = ()) -> str:
    system, user = asking.turns(question)
    try:
        return _render(tokenizer, [_turn("system", system), _turn("user", user), *later], asking)
    except TemplateError:  # Gemma's and others know no system role and say so
        return _render(tokenizer, [_turn("user", asking.in_one_turn(question)), *later], asking)


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _render(tokenizer: Any, turns: list[dict[str, str]], asking: Asking) -> str:
    own = {SWITCH: False} if switches_thinking_off(tokenizer, asking) else {}
    options = {"tokenize": False, "add_generation_prompt": True, **own, **asking.template_args}
    text: str = tokenizer.apply_chat_template(turns, **options)
    return text


def _without_end_of_text(tokenizer: Any, ids: list[int]) -> list[int]:
    """Some tokenizers close every text; behind a prompt that would mean that nothing follows."""
    return ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids
