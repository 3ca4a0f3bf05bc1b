"""Puts questions, conversations and the end of reasoning into a model's tokens.

Chat models get an instruction and user turns, base models plain text.

Of a conversation what was sampled stays as it is, and the environment's words come between.

    prompt ─▶ turn 1, reply 1, turn 2, reply 2, ... ─▶ the context of the next turn, or a row of training data

The generator and the trainer read a conversation with this one function, so both see the very same ids. A turn is never
decoded and encoded again, and a context only grows: that of the next turn begins with that of the last one.

ReasoningBudget ends reasoning: a closing is put in the place of what the model would have written.

    budget tokens, and neither </think> nor <answer> ──▶ the closing's ids, one a step ──▶ the model goes on sampling

All rows of a batch begin together and so come to the budget at one step: there they are looked at, once. The closing is
context and no choice of the model's: nothing is learnt of it (`written_places`). Sizes: R rows, L live rows, C tokens
of the longest closing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from jinja2 import TemplateError
from torch import Tensor

from swarm.errors import ModelError
from swarm.harmless import quoted
from swarm.instruction import OURS, TAG, Asking
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


_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
_TAIL = 16
"""Tokens of a prompt's end in which an opened thought is looked for; `<think>` and a line break have at most 8."""


def closing_ids(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns token ids of what is forced: where no thought is open, and where one is."""
    plain, of_thought = (
        tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (f"\n{TAG}", f"{_THOUGHT_ENDS}\n\n{TAG}")
    )
    return plain, of_thought


def written_places(length: int, forced: tuple[int, int] | None) -> Sequence[int]:
    """Returns places of those tokens of a turn that the model chose."""
    if forced is None:
        return range(length)
    start, many = forced
    return [*range(start), *range(start + many, length)]


class ReasoningBudget:
    """Says how many tokens of a turn may go by without an end of reasoning, and what is forced then."""

    def __init__(self, tokenizer: Any, tokens: int) -> None:
        self.tokens = tokens
        self._tokenizer = tokenizer
        self._plain, self._of_thought = closing_ids(tokenizer)
        self.longest = max(len(self._plain), len(self._of_thought))

    def closing(self, prompt: Sequence[int], written: Sequence[int]) -> tuple[int, ...]:
        """Returns the ids that are forced behind these tokens of a turn; empty where its reasoning is over or its
        answer has begun."""
        text = shown_prompt(self._tokenizer, list(written))
        if _THOUGHT_ENDS in text or TAG in text:
            return ()
        return self._of_thought if _THOUGHT in text or self._opens_thought(prompt) else self._plain

    def _opens_thought(self, prompt: Sequence[int]) -> bool:
        return shown_prompt(self._tokenizer, list(prompt[-_TAIL:])).rstrip().endswith(_THOUGHT)


class ForcedTokens:
    """Holds which tokens the rows of one batch have to write."""

    def __init__(self, budget: ReasoningBudget, prompt_of_row: Sequence[Sequence[int]], limit_R: Tensor) -> None:
        self._budget, self._prompts, self._limits = budget, prompt_of_row, limit_R.tolist()
        self._id_R_C = torch.full((len(limit_R), budget.longest), -1, device=limit_R.device)
        self._lengths = dict[int, int]()

    def imposed(
        self, live_L: Tensor, step: int, token_L: Tensor, logprob_L: Tensor, token_R_T: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the token of each live row and its log-prob: what was drawn, or what is forced, which has log-prob 0.

        Args:
            token_R_T: what the rows have written before this step.
        """
        place = step - self._budget.tokens
        if place == 0:
            self._look(live_L.tolist(), token_R_T[live_L, :step].tolist())
        if not self._lengths or not 0 <= place < self._budget.longest:
            return token_L, logprob_L
        forced_L = self._id_R_C[live_L, place]
        return torch.where(forced_L < 0, token_L, forced_L), logprob_L.masked_fill(forced_L >= 0, 0.0)

    def span(self, row: int, length: int) -> tuple[int, int] | None:
        """Returns where in a row that ends after `length` tokens the closing begins, and how many of them it has."""
        start = self._budget.tokens
        many = min(self._lengths.get(row, 0), length - start)
        return (start, many) if many > 0 else None

    def _look(self, rows: Sequence[int], written: Sequence[Sequence[int]]) -> None:
        """A row with no room for the closing and an answer is left alone."""
        for row, tokens in zip(rows, written, strict=True):
            ids = self._budget.closing(self._prompts[row], tokens)
            if ids and self._budget.tokens + len(ids) < self._limits[row]:
                self._lengths[row] = len(ids)
                self._id_R_C[row, : len(ids)] = torch.tensor(ids, device=self._id_R_C.device)
