"""Prompt forms: chat models, chat models without a system role, and base models."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.policy.prompt import INSTRUCTION, decode_completion, encode_completion, encode_prompt
from tests.unit.policy.factories import CHAT_TEMPLATE, EOS, NO_SYSTEM_TEMPLATE, make_tokenizer


def written(tokenizer: Any, question: str = "1 + 1?") -> str:
    text: str = tokenizer.decode(encode_prompt(tokenizer, question))
    return text


def test_chat_models_get_the_instruction_as_system_turn() -> None:
    assert written(make_tokenizer(chat_template=CHAT_TEMPLATE)) == (
        f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_chat_models_without_a_system_role_get_it_in_the_user_turn() -> None:
    assert written(make_tokenizer(chat_template=NO_SYSTEM_TEMPLATE)) == (
        f"<|im_start|>user\n{INSTRUCTION}\n\n1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_chat_markers_become_special_tokens() -> None:
    tokenizer = make_tokenizer(chat_template=CHAT_TEMPLATE)
    assert encode_prompt(tokenizer, "?")[0] == tokenizer.convert_tokens_to_ids("<|im_start|>")


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


@pytest.mark.parametrize("template", [None, CHAT_TEMPLATE])
def test_instruction_names_the_tags_the_verifier_reads(template: str | None) -> None:
    assert "<answer>" in written(make_tokenizer(chat_template=template))
    assert "</answer>" in written(make_tokenizer(chat_template=template))


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
