"""Puts questions and conversations into a model's tokens.

Chat models get an instruction and user turns, base models plain text.

Of a conversation what was sampled stays as it is, and the environment's words come between.

    prompt ─▶ turn 1, reply 1, turn 2, reply 2, ... ─▶ the context of the next turn, or a row of training data

The generator and the trainer read a conversation with this one function, so both see the very same ids. A turn is never
decoded and encoded again, and a context only grows: that of the next turn begins with that of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import zip_longest
from typing import Any, NamedTuple

from jinja2 import TemplateError

from swarm.errors import ModelError
from swarm.harmless import quoted
from swarm.instruction import OURS, Asking
from swarm.policy.model import LanguageModel
from swarm.types import Completion, Dialogue, Turn

SWITCH = "enable_thinking"
"""What templates of models that may think call the argument that says whether they do."""
_DATED = "strftime_now"
"""What templates call that write today's date."""
_DATE = re.compile(_DATED + r"""\(\s*(['"])(.*?)\1\s*\)""")
_TURN = "theModelsEarlierTurn"
"""Stands for a turn of the model: one word that no template splits, trims or takes for anything else."""


def encode_prompt(tokenizer: Any, question: str, asking: Asking = OURS) -> list[int]:
    """Returns token ids of the whole prompt, up to where the model's answer begins."""
    if tokenizer.chat_template is None:
        return _without_end_of_text(tokenizer, tokenizer(asking.as_plain_text(question))["input_ids"])
    return list(tokenizer(_chat_text(tokenizer, question, asking), add_special_tokens=False)["input_ids"])


def switches_thinking_off(tokenizer: Any, asking: Asking = OURS) -> bool:
    """Tells whether prompts are rendered without thinking because the template has the switch and nobody set it.

    A thought takes hundreds of tokens before the answer begins, and the length of a completion ends before it.
    """
    return SWITCH not in asking.template_args and SWITCH in str(tokenizer.chat_template or "")


def encode_completion(tokenizer: Any, text: str) -> list[int]:
    """Returns token ids of an external completion as this tokenizer would have written it, without any end-of-text.

    Names of special tokens inside the text stay text: no completion goes on after an end-of-text.
    """
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def decode_completion(tokenizer: Any, token_ids: list[int]) -> str:
    """Returns the text of sampled ids, special tokens left out."""
    text: str = tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def shown_prompt(tokenizer: Any, token_ids: list[int]) -> str:
    """Returns the text of a prompt with its special tokens."""
    text: str = tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def text_behind_a_turn(tokenizer: Any, reply: str, asking: Asking = OURS) -> str | None:
    """Returns what a chat template writes behind a turn of the model that is replied to; None if it does not show the
    reply."""
    try:
        _, _, behind = _chat_text(tokenizer, "?", asking, _TURN, reply).partition(_TURN)
    except TemplateError:
        return None
    return behind if behind and reply.strip() in behind else None


def rendered(tokenizer: Any, question: str, asking: Asking, *replies: str, opened: bool = True) -> str:
    """Returns the text of a prompt by the chat template, in the very form that `asking` says.

    Args:
        replies: turns behind the question, of the model and the user by turns.
        opened: the model's next turn is begun.

    Raises:
        Exception: whatever the template makes of it.
    """
    system, user = asking.turns(question)
    turns = [("user", asking.in_one_turn(question))] if asking.one_turn else [("system", system), ("user", user)]
    turns += zip(("assistant", "user") * len(replies), replies, strict=False)
    own = {SWITCH: False} if switches_thinking_off(tokenizer, asking) else {}
    options = {"tokenize": False, "add_generation_prompt": opened, **own, **asking.template_args}
    if asking.date and writes_date(tokenizer, asking):
        options["chat_template"] = _dated(
            tokenizer.get_chat_template(asking.template_args.get("chat_template")), asking.date
        )
    text: str = tokenizer.apply_chat_template([_turn(asking, *turn) for turn in turns], **options)
    return text


def writes_date(tokenizer: Any, asking: Asking = OURS) -> bool:
    """Tells whether prompts have today's date in them, so that they are others tomorrow."""
    return _DATED in f"{tokenizer.chat_template} {asking.template_args.get('chat_template')}"


def _dated(template: str, day: str) -> str:
    """Returns the template with a date in the place of today's."""
    day_of = date.fromisoformat(day)
    return _DATE.sub(lambda found: repr(day_of.strftime(found[2])), template)


def _chat_text(tokenizer: Any, question: str, asking: Asking, *replies: str) -> str:
    try:
        return rendered(tokenizer, question, asking, *replies)
    except TemplateError:  # Gemma's and others know no system role and say so
        if asking.one_turn:
            raise
        return rendered(tokenizer, question, replace(asking, one_turn=True), *replies)


def _turn(asking: Asking, role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}] if asking.as_parts else text}


def _without_end_of_text(tokenizer: Any, ids: list[int]) -> list[int]:
    """Leaves out the end of text with which some tokenizers close every text: behind a prompt it would mean that
    nothing follows."""
    return ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids


_WORDS = "theEnvironmentsWords"
"""Stands for a reply that is to be put in later."""


class Spoken(NamedTuple):
    """Holds the tokens that follow the prompt."""

    token_ids: tuple[int, ...]
    written: Sequence[int]
    """Places of those that the model wrote; all others are the environment's."""


def encode_dialogue(model: LanguageModel, dialogue: Dialogue, asking: Asking = OURS) -> list[int]:
    """Returns token ids up to where the model's next turn begins. Raises ModelError: see reply_ids."""
    turns = [encode_turn(model, turn) if turn.token_ids is None else turn.token_ids for turn in dialogue.turns]
    spoken = join_turns(model, turns, [turn.reply for turn in dialogue.turns], asking)
    return [*encode_prompt(model.tokenizer, dialogue.question, asking), *spoken.token_ids]


def encode_turn(model: LanguageModel, turn: Turn | Completion) -> tuple[int, ...]:
    """Returns a text of others as this model would have written it."""
    ids = encode_completion(model.tokenizer, turn.text)
    return (*ids, model.eos_id) if turn.finished else tuple(ids)


def join_turns(
    model: LanguageModel,
    turns: Sequence[Sequence[int]],
    replies: Sequence[str],
    asking: Asking = OURS,
) -> Spoken:
    """Returns the turns of a model, each with the reply behind it; of the last one there may be none."""
    if not replies:
        return Spoken(tuple(turns[0]), range(len(turns[0])))
    ids, written = list[int](), list[int]()
    for turn, reply in zip_longest(turns, replies):
        written += range(len(ids), len(ids) + len(turn))
        ids += turn
        if reply is not None:
            ids += reply_ids(model, reply, asking, closed=bool(turn) and turn[-1] in model.eos_ids)
    return Spoken(tuple(ids), written)


def reply_ids(model: LanguageModel, reply: str, asking: Asking = OURS, *, closed: bool) -> list[int]:
    """Returns the environment's words as the model's prompt format has them, from the end of the model's turn to its
    next one.

    Names of special tokens among them stay text: an environment may quote what a model wrote.

    Args:
        closed: the turn before ends with an end-of-text; else the one that closes it is the first of these.

    Raises:
        ModelError: the chat template shows no second turn of the user.
    """
    tokenizer = model.tokenizer
    if tokenizer.chat_template is None:
        return encode_completion(tokenizer, asking.reply_as_plain_text(reply))
    names_marks = any(mark in reply for mark in tokenizer.all_special_tokens)
    behind = text_behind_a_turn(tokenizer, _WORDS if names_marks else reply, asking)
    if behind is None:
        raise ModelError(
            f"model {model.name!r}: its chat template does not show what is said after a turn of the model, such as"
            f" {quoted(reply)}, so it cannot take part in a conversation. Use a model whose template takes several"
            " turns, or tasks of one turn."
        )
    before, _, after = behind.partition(_WORDS) if names_marks else (behind, "", "")
    words = encode_completion(tokenizer, reply) if names_marks else []
    ids = [*_template_ids(tokenizer, before), *words, *_template_ids(tokenizer, after)]
    return _without_closing(model, ids) if closed else ids


def _template_ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


def _without_closing(model: LanguageModel, ids: list[int]) -> list[int]:
    """Returns the ids behind the end-of-text in front, if there is one with nothing but white space before it."""
    end = next((place for place, token in enumerate(ids) if token in model.eos_ids), -1)
    return ids if decode_completion(model.tokenizer, ids[: max(0, end)]).strip() else ids[end + 1 :]
