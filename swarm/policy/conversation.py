"""Token ids of a conversation: what was sampled stays as it is, and the environment's words come between.

    prompt ─▶ turn 1, reply 1, turn 2, reply 2, ... ─▶ the context of the next turn, or a row of training data

The generator and the trainer read a conversation with this one function, so both see the very same ids. A turn is never
decoded and encoded again, and a context only grows: that of the next turn begins with that of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from swarm.errors import ModelError
from swarm.harmless import quoted
from swarm.instruction import OURS, Asking
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import decode_completion, encode_completion, encode_prompt, text_behind_a_turn
from swarm.policy.reasoning import written_places
from swarm.types import Completion, Dialogue, Turn

_WORDS = "theEnvironmentsWords"
"""Stands for a reply that is to be put in later."""


class Spoken(NamedTuple):
    """Holds the tokens that follow the prompt."""

    token_ids: tuple[int, ...]
    written: Sequence[int]
    """Places of those that the model wrote; all others are the environment's, or were forced."""


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
    forced: Sequence[tuple[int, int] | None] = (),
) -> Spoken:
    """Returns the turns of a model, each with the reply behind it; of the last one there may be none.

    Args:
        forced: of each turn, as in Completion; none: nothing was.
    """
    if not replies:
        return Spoken(tuple(turns[0]), written_places(len(turns[0]), *forced or (None,)))
    ids, written = list[int](), list[int]()
    for turn, reply, span in zip_longest(turns, replies, forced):
        written += (len(ids) + place for place in written_places(len(turn), span))
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
