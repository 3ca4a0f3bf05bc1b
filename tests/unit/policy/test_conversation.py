"""Token ids of conversations: against the chat templates of real models, and what stays as it was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ModelError
from swarm.instruction import Asking
from swarm.policy.embedded import EMBEDDED
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.policy import make_policy
from swarm.policy.prompt import encode_dialogue, encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion, Dialogue, Turn
from tests.unit.policy.chat_templates import CHATS
from tests.unit.policy.factories import CHAT_TEMPLATE, EOS, make_model, make_tokenizer

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="<>|[]"), min_size=1)
SYSTEM, QUESTION = "You guess. <answer>", "Which number?"
ASKING = Asking(system_prompt=SYSTEM, template_args={"enable_thinking": True})  # what Qwen3's template does untold


@cache
def chat_model(name: str) -> LanguageModel:
    """A model of one of the templates, whose end-of-text is what closes a turn there."""
    chat = CHATS[name]
    tokenizer = make_tokenizer(chat_template=chat.template, eos=False)
    tokenizer.add_special_tokens({"eos_token": chat.marks[0], "additional_special_tokens": list(chat.marks)})
    if chat.opens:
        tokenizer.bos_token = chat.opens
    return make_model(tokenizer=tokenizer, vocabulary=280)


def dialogue(*turns: tuple[str, str], finished: bool = True) -> Dialogue:
    return Dialogue(QUESTION, tuple(Turn(text, finished, reply) for text, reply in turns))


def shown(model: LanguageModel, ids: Sequence[int]) -> str:
    text: str = model.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
    return text


def rendered(model: LanguageModel, said: Dialogue, asking: Asking) -> str:
    """What the template itself makes of the whole conversation."""
    system, question = asking.turns(said.question)
    first = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    if "System role not supported" in model.tokenizer.chat_template:
        first = [{"role": "user", "content": asking.in_one_turn(said.question)}]
    later = [
        {"role": role, "content": text}
        for turn in said.turns
        for role, text in (("assistant", turn.text), ("user", turn.reply))
    ]
    options: dict[str, Any] = {"tokenize": False, "add_generation_prompt": True, **asking.template_args}
    text: str = model.tokenizer.apply_chat_template([*first, *later], **options)
    return text


@pytest.mark.parametrize("chat", CHATS)
@given(turns=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3))
def test_a_dialogue_has_the_ids_of_what_its_chat_template_writes(chat: str, turns: list[tuple[str, str]]) -> None:
    model, said = chat_model(chat), dialogue(*turns)
    expected = rendered(model, said, ASKING)
    if chat == "Llama-2":  # writes blanks around a turn, which no model samples
        expected = expected.replace("[/INST] ", "[/INST]").replace(" </s>", "</s>")
    ids = encode_dialogue(model, said, ASKING)
    assert shown(model, ids) == expected
    assert ids == model.tokenizer(expected, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("chat", CHATS)
def test_a_turn_that_hit_the_length_limit_is_closed_by_the_context(chat: str) -> None:
    model = chat_model(chat)
    closing = CHATS[chat].marks[0]
    cut, ended = (
        shown(model, encode_dialogue(model, dialogue(("12", "more"), finished=finished))) for finished in (False, True)
    )
    assert cut.replace(f" {closing}", closing) == ended  # Llama 2 has a blank there
    assert f"12{closing}" in ended


@pytest.mark.parametrize("name", EMBEDDED[:2])
def test_embedded_models_read_dialogues_in_the_format_they_were_trained_in(name: str) -> None:
    model = load_model(name, device="cpu")
    said = dialogue(("<answer>5</answer>", "more"), ("<answer>7</answer>", "less"))
    assert shown(model, encode_dialogue(model, said)) == (
        f"<|user|>{QUESTION}<|assistant|><answer>5</answer>{EOS}"
        f"<|user|>more<|assistant|><answer>7</answer>{EOS}<|user|>less<|assistant|>"
    )


def test_base_models_read_a_dialogue_as_plain_text() -> None:
    model = make_model()
    said = dialogue(("5", "more"), ("7", "less"), finished=False)
    text = shown(model, encode_dialogue(model, said, Asking(instruction="")))
    assert text == f"Question: {QUESTION}\nAnswer:5\n\nmore\nAnswer:7\n\nless\nAnswer:"


def test_arguments_of_the_template_and_words_of_templates_reach_every_turn() -> None:
    quiet = Asking(template_args={"enable_thinking": False})
    model, said = chat_model("Qwen3"), dialogue(("5", "<tool_response>theModelsEarlierTurn</tool_response>"))
    text = shown(model, encode_dialogue(model, said, quiet))
    assert text.endswith("EarlierTurn</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert text.count("<think>") == 2


@pytest.mark.parametrize("chat", [*CHATS, None])
def test_an_environment_that_quotes_a_model_writes_no_special_tokens(chat: str | None) -> None:
    model = chat_model(chat) if chat else make_model()
    marks = CHATS[chat].marks if chat else (EOS,)
    quiet, quoting = (encode_dialogue(model, dialogue(("5", f"You said: {words}"))) for words in ("5", "".join(marks)))
    special = set(model.tokenizer.all_special_ids)
    assert [token for token in quoting if token in special] == [token for token in quiet if token in special]
    assert f"You said: {''.join(marks)}" in shown(model, quoting)
    assert shown(model, quoting).replace(f"said: {''.join(marks)}", "said: 5") == shown(model, quiet)


def test_sampled_ids_stay_as_they_are_and_contexts_only_grow() -> None:
    """Decoding and encoding again is not the identity."""
    model = chat_model("Qwen2.5")
    odd = (250, 3, model.eos_id)
    turns = (Turn("?", True, "more", odd, (-1.0,) * 3), Turn("5", False, "less", (20,), (-1.0,)))
    prompt = encode_prompt(model.tokenizer, QUESTION)
    first, second = (encode_dialogue(model, Dialogue(QUESTION, turns[:n])) for n in (1, 2))
    assert tuple(first[: len(prompt) + 3]) == (*prompt, *odd)
    assert second[: len(first) + 1] == [*first, 20]


BLIND = "{{ messages[0]['content'] }}{% if add_generation_prompt %}A:{% endif %}"
ONE_TURN = "{% if messages | length > 2 %}{{ raise_exception('one question alone') }}{% endif %}" + CHAT_TEMPLATE


@pytest.mark.parametrize("template", [BLIND, ONE_TURN])
def test_a_template_that_shows_no_second_turn_is_said_with_what_to_do(template: str) -> None:
    model = make_model(tokenizer=make_tokenizer(chat_template=template))
    assert encode_prompt(model.tokenizer, QUESTION)
    with pytest.raises(ModelError, match=r"'tiny-qwen2': its chat template .* 'more'.* or tasks of one turn"):
        encode_dialogue(model, dialogue(("5", "more")))


# ── generating ────────────────────────────────────────────────────────────────────────────────────────────────────────
SAID = [dialogue(("5", "more")), dialogue(("5", "more"), ("7", "a little less than that")), dialogue(("", ""))]


def test_a_dialogue_is_answered_as_the_prompt_of_its_ids_would_be_and_again_the_same() -> None:
    policy = make_policy(make_model(eos_ids=tuple(range(40))), GrpoConfig())
    told: dict[int, tuple[Completion, ...]] = {}
    groups = policy.generate([*SAID, "?"], group_size=2, seed=5, ready=told.__setitem__)
    assert [told[n] for n in range(4)] == groups
    assert groups == policy.generate([*SAID, "?"], group_size=2, seed=5)
    assert all(len(group) == 2 and not one.earlier for group in groups for one in group)
    assert len({one.token_ids for group in groups for one in group}) > 4


def test_a_dialogue_without_room_for_a_turn_gets_none_and_changes_no_other() -> None:
    policy = make_policy(make_model(context=300), GrpoConfig(max_new_tokens=4))
    alone = policy.generate(SAID[:2], group_size=1, seed=3)
    told: dict[int, tuple[Completion, ...]] = {}
    long = dialogue(("5", "?" * 300))
    assert policy.generate([*SAID[:2], long], group_size=1, seed=3, ready=told.__setitem__) == [*alone, ()]
    assert sorted(told) == [0, 1]
    assert policy.generate([long], group_size=1, seed=3) == [()]
