"""Prompt forms: chat models, chat models without a system role, and base models."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.instruction import INSTRUCTION, OURS, Asking
from swarm.policy.prompt import decode_completion, encode_completion, encode_prompt, switches_thinking_off
from tests.unit.policy.chat_templates import QWEN_3
from tests.unit.policy.factories import CHAT_TEMPLATE, EOS, NO_SYSTEM_TEMPLATE, make_tokenizer


def written(tokenizer: Any, question: str = "1 + 1?", asking: Asking = OURS) -> str:
    text: str = tokenizer.decode(encode_prompt(tokenizer, question, asking))
    return text


def test_base_models_get_plain_text() -> None:
    assert written(make_tokenizer()) == f"{INSTRUCTION}\n\nQuestion: 1 + 1?\nAnswer:"


def test_tokenizer_that_closes_every_text_leaves_the_prompt_open() -> None:
    tokenizer = make_tokenizer()

    class Closing:
        chat_template = None
        eos_token_id = tokenizer.eos_token_id

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]}

    assert encode_prompt(Closing(), "?") == encode_prompt(tokenizer, "?")


@given(st.text(max_size=40))
def test_completion_text_survives_encoding_and_decoding(text: str) -> None:
    tokenizer = make_tokenizer()
    assert decode_completion(tokenizer, encode_completion(tokenizer, text)) == text


def test_decoded_completions_leave_special_tokens_out() -> None:
    tokenizer = make_tokenizer()
    ids = [*encode_completion(tokenizer, "<answer>4</answer>"), tokenizer.convert_tokens_to_ids("<|im_end|>")]
    assert decode_completion(tokenizer, ids) == "<answer>4</answer>"


def test_encoded_completions_hold_no_special_tokens() -> None:
    tokenizer = make_tokenizer()
    assert not set(encode_completion(tokenizer, f"a{EOS}<|im_end|>")) & set(tokenizer.all_special_ids)


PLAIN, SYSTEM = Asking(instruction="Answer in <answer>."), Asking(system_prompt="You sort.")
SELF_CONTAINED = Asking(system_prompt="Reason in <think>, answer in <answer>.")


@pytest.mark.parametrize(
    ("asking", "system", "user"),
    [
        (OURS, INSTRUCTION, "1 + 1?"),
        (PLAIN, "Answer in <answer>.", "1 + 1?"),
        (SYSTEM, "You sort.", f"{INSTRUCTION}\n\n1 + 1?"),
        (SELF_CONTAINED, SELF_CONTAINED.system_prompt, "1 + 1?"),
        (Asking("You sort.", "Answer."), "You sort.", "Answer.\n\n1 + 1?"),
    ],
)
def test_the_instruction_is_the_system_turn_or_stands_in_the_users_and_texts_of_ones_own_take_its_place(
    asking: Asking, system: str, user: str
) -> None:
    chat, joined, plain = (
        written(make_tokenizer(chat_template=template), asking=asking)
        for template in (CHAT_TEMPLATE, NO_SYSTEM_TEMPLATE, None)
    )
    assert chat == (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert joined == f"<|im_start|>user\n{system}\n\n{user}<|im_end|>\n<|im_start|>assistant\n"
    assert plain == f"{system}\n\n{user.removesuffix('1 + 1?')}Question: 1 + 1?\nAnswer:"


def test_thinking_is_off_where_the_template_has_the_switch_and_nobody_sets_it() -> None:
    tokenizer = make_tokenizer(chat_template=CHAT_TEMPLATE + "{% if not enable_thinking %}<think></think>{% endif %}")
    without_switch = make_tokenizer(chat_template=CHAT_TEMPLATE)
    thinking = Asking(template_args={"enable_thinking": True})
    assert switches_thinking_off(tokenizer)
    assert not switches_thinking_off(tokenizer, thinking)
    assert not any(switches_thinking_off(one) for one in (without_switch, make_tokenizer()))
    qwen_3 = make_tokenizer(chat_template=QWEN_3)
    assert written(qwen_3).endswith("<think>\n\n</think>\n\n")
    assert written(qwen_3, asking=thinking).endswith("<|im_start|>assistant\n")
    assert written(qwen_3, asking=Asking(template_args={"other": 1})).endswith("</think>\n\n")
