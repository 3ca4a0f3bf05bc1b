"""Renders one question once a model is loaded, looks at the prompt, and decides in which form it is asked.

    question, instruction ─▶ system turn and user turn ─┐
                          ─▶ one turn of the user ──────┼▶ rendered ─▶ looked at ─▶ the first form without a problem
                          ─▶ the same two, as parts ────┘

A prompt without the question or without the instruction earns 0 for ever, and nothing else would say so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from swarm.errors import ModelError
from swarm.harmless import printable
from swarm.instruction import OURS, Asking
from swarm.logs import get_logger
from swarm.policy.embedded import CHAT_TEMPLATE
from swarm.policy.prompt import rendered, shown_prompt

logger = get_logger(__name__)

QUESTION = "How many letters has the word abracadabra?"
_TURN = "It has eleven of them."
_FORMS = ((False, False), (True, False), (False, True), (True, True))
"""(one turn, as parts), in the order in which they are tried."""
_LONGEST = 1200
"""Characters of a prompt that an error shows."""
_REMEDY = (
    "Correct the template in a copy of the model's folder (chat_template.jinja) and name that as MODEL_NAME, or give "
    """one: SWARM_CHAT_TEMPLATE_ARGS='{"chat_template": "..."}'."""
)


class _Tried(NamedTuple):
    """Holds what came of asking in one form."""

    problem: str
    """Empty: it suits."""
    text: str = ""
    """The prompt; empty where there is none."""


def suited(name: str, tokenizer: Any, asking: Asking = OURS, not_embedded: Sequence[str] = ()) -> Asking:
    """Returns how questions are put so that this tokenizer's chat template shows all of it.

    Args:
        not_embedded: tokens that no prompt may name, as of LanguageModel.

    Raises:
        ModelError: there is no such form. It shows the prompt.
    """
    if tokenizer.chat_template is None:
        return asking
    tried = list[_Tried]()
    for one_turn, as_parts in _FORMS:
        form = replace(asking, one_turn=one_turn, as_parts=as_parts)
        tried.append(_try(tokenizer, form, not_embedded))
        if not tried[-1].problem:
            if tried[1:]:
                logger.info("model.asked_otherwise", model=name, form=_said(form), because=tried[0].problem)
            return form
    worst = next((one for one in tried if one.text), tried[0])
    shown = f": {worst.text!r:.{_LONGEST}}" if worst.text else ""
    raise ModelError(f"model {name!r}: its chat template {worst.problem}{shown}. {_REMEDY}")


def closing_id(tokenizer: Any, eos_ids: Collection[int], asking: Asking = OURS) -> int | None:
    """Returns which of these ends of text the chat template writes behind a turn of the model; None: another token, or
    no template.

    A model may have several, and the tokenizer names another one: Gemma's is `<eos>`, and turns end in `<end_of_turn>`.
    """
    if tokenizer.chat_template is None and "chat_template" not in asking.template_args:
        return None
    behind = _or_nothing(tokenizer, asking, _TURN).rpartition(_TURN)[2]
    ids = tokenizer(behind.lstrip(), add_special_tokens=False)["input_ids"]
    return ids[0] if ids and ids[0] in eos_ids else None


def _said(asking: Asking) -> str:
    turns = "one turn of the user" if asking.one_turn else "a system turn and the user's"
    return f"{turns}, each a list of parts" if asking.as_parts else turns


def _try(tokenizer: Any, asking: Asking, not_embedded: Sequence[str]) -> _Tried:
    try:
        text = rendered(tokenizer, QUESTION, asking)
    except Exception as error:  # noqa: BLE001 - the boundary: a template is a program of somebody else's
        return _Tried(f"fails: {type(error).__name__}: {printable(str(error))}")
    problem = (
        _missing(text, tokenizer, asking)
        or _not_opened(text, tokenizer, asking)
        or _doubled(text, tokenizer)
        or next((f"names {token}, which the model does not embed" for token in not_embedded if token in text), "")
    )
    return _Tried(problem, text)


def _missing(text: str, tokenizer: Any, asking: Asking) -> str:
    """Returns which part of question and instruction a prompt lacks, or has more than once, white space aside; empty:
    none."""
    told = asking.in_one_turn(QUESTION)
    parts = {"the question": QUESTION}
    ours = tokenizer.chat_template == CHAT_TEMPLATE and asking.system_prompt is None and asking.instruction is None
    if not ours:  # the embedded models were made without
        parts |= {"the system prompt": asking.system_prompt or "", "the instruction": asking.told}
    for what, part in parts.items():
        words = " ".join(part.split())
        wanted, found = (" ".join(one.split()).count(words) if words else 0 for one in (told, text))
        if found < wanted:
            return f"leaves {what} out of the prompt"
        if found > wanted:
            return f"writes {what} more than once into the prompt"
    return ""


def _not_opened(text: str, tokenizer: Any, asking: Asking) -> str:
    """Tells whether the model's turn is begun once behind the question: by the generation prompt, or by its question's
    end (as Llama 2's [/INST])."""
    behind = text.rpartition(QUESTION)[2]
    closed = _or_nothing(tokenizer, asking)
    if closed and text.startswith(closed) and (opening := text[len(closed) :].strip()):
        return f"begins the model's turn more than once ({opening})" if behind.count(opening) > 1 else ""
    if closed != text:
        return ""
    told, turn, _ = _or_nothing(tokenizer, asking, _TURN).partition(_TURN)
    begun = told.rpartition(QUESTION)[2].strip()
    if turn and begun != behind.strip() and begun.startswith(behind.strip()):
        return "does not begin the model's turn"
    return ""


def _or_nothing(tokenizer: Any, asking: Asking, *replies: str) -> str:
    """Returns a prompt without a generation prompt; empty where the template has none such."""
    try:
        return rendered(tokenizer, QUESTION, asking, *replies, opened=False)
    except Exception:  # noqa: BLE001 - as above
        return ""


def _doubled(text: str, tokenizer: Any) -> str:
    """Returns which special token stands twice in a row. One that both ends and begins a turn may, but not in front."""
    special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    both = {tokenizer.eos_token_id} & {tokenizer.bos_token_id}
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pairs = ((one, place) for place, (one, following) in enumerate(pairwise(ids)) if one == following)
    token = next((one for one, place in pairs if one in special and (one not in both or place == 0)), None)
    return "" if token is None else f"writes {shown_prompt(tokenizer, [token])} twice in a row"
