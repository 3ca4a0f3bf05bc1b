"""A prompt is looked at when its model is loaded: families' templates show all of it, broken ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.errors import ModelError
from swarm.instruction import INSTRUCTION, OURS, Asking
from swarm.policy.asked_well import closing_id, suited
from swarm.policy.policy import asked_well, load_generator, load_policy
from swarm.policy.prompt import encode_prompt, encode_turn, shown_prompt
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion
from tests.unit.policy.chat_templates import FAMILIES, GPT_OSS, LLAMA_3_2, PHI_4_MINI, Chat
from tests.unit.policy.factories import CHAT_TEMPLATE, make_model, make_module, make_tokenizer

QUESTION = "How much is 17 + 4?"
TURN = "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
OPENED = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def tokenizer_of(chat: Chat) -> Any:
    tokenizer = make_tokenizer(chat_template=chat.template)
    closing, *_ = chat.marks
    tokenizer.add_special_tokens({"eos_token": closing, "additional_special_tokens": list(chat.marks)})
    if chat.opens:
        tokenizer.add_special_tokens({"bos_token": chat.opens})
    return tokenizer


def prompt(tokenizer: Any, asking: Asking = OURS) -> str:
    return shown_prompt(tokenizer, encode_prompt(tokenizer, QUESTION, suited("m", tokenizer, asking)))


def refusal(template: Any, **tokens: str) -> str:
    tokenizer = make_tokenizer(chat_template=template)
    tokenizer.add_special_tokens(tokens)
    with pytest.raises(ModelError) as caught:
        suited("owner/chatty", tokenizer)
    said = str(caught.value)
    assert "\n" not in said
    assert "model 'owner/chatty': its chat template" in said
    assert "SWARM_CHAT_TEMPLATE_ARGS=" in said
    return said


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_prompt_has_question_and_instruction_once_and_ends_where_the_model_begins(family: str) -> None:
    chat = FAMILIES[family]
    tokenizer = tokenizer_of(chat)
    text = prompt(tokenizer)
    assert (text.count(QUESTION), text.count(INSTRUCTION)) == (1, 1)
    assert text.index(INSTRUCTION) < text.index(QUESTION)
    assert not text.rstrip().endswith((QUESTION, chat.marks[0]))
    assert not chat.opens or (text.startswith(chat.opens) and not text.startswith(chat.opens * 2))


def test_an_instruction_that_a_template_drops_moves_into_the_users_turn() -> None:
    """Phi-3 as it was published first."""
    assert prompt(tokenizer_of(FAMILIES["Phi-3"])) == (
        f"<s><|user|>\n{INSTRUCTION}\n\n{QUESTION}<|end|>\n<|assistant|>\n"
    )


PARTS = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}" + OPENED
)


def test_a_template_that_loops_over_parts_is_given_parts() -> None:
    plain = prompt(make_tokenizer(chat_template=CHAT_TEMPLATE))
    assert QUESTION in plain
    assert prompt(make_tokenizer(chat_template=PARTS)) == plain


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_ends_as_its_template_ends_it_whatever_end_of_text_the_tokenizer_names(family: str) -> None:
    chat = FAMILIES[family]
    tokenizer = tokenizer_of(chat)
    closing = tokenizer.convert_tokens_to_ids(chat.marks[0])
    tokenizer.add_special_tokens({"eos_token": "<eos>"})  # as Gemma's and Phi's, whose turns end in another one
    ends = {tokenizer.eos_token_id, closing}
    expected = tokenizer.eos_token_id if "eos_token" in chat.template.replace(PHI_4_MINI, "") else closing
    asking = suited("m", tokenizer)
    assert closing_id(tokenizer, ends, asking) == expected
    assert closing_id(tokenizer, ends - {expected}, asking) is None


def test_an_answer_of_a_peer_ends_for_the_trainer_as_the_model_itself_would_have_ended_it() -> None:
    tokenizer = make_tokenizer(chat_template=CHAT_TEMPLATE)
    closing = tokenizer.convert_tokens_to_ids("<|im_end|>")
    answer = Completion("4", finished=True)
    (digit,) = tokenizer("4")["input_ids"]
    for eos_ids, end in (((tokenizer.eos_token_id, closing), closing), ((), tokenizer.eos_token_id)):
        model, _ = asked_well(make_model(tokenizer=tokenizer, eos_ids=eos_ids), GrpoConfig())
        assert encode_turn(model, answer) == (digit, end)
    plain, _ = asked_well(make_model(), GrpoConfig())
    assert encode_turn(plain, answer) == (digit, plain.tokenizer.eos_token_id)


MESSAGES = "{% for message in messages %}"
BROKEN = {
    "raises": (MESSAGES + "{{ raise_exception('no such role') }}{% endfor %}", "fails: TemplateError: no such role"),
    "a slip in its syntax": (MESSAGES + "{{ message.content }", "fails: TemplateSyntaxError"),
    "a slip in its types": (MESSAGES + "{{ message['content'] + 1 }}{% endfor %}", "fails: TypeError"),
    "a name alone": ("chatml", "leaves the question out of the prompt: 'chatml'"),
    "names without a default": ({"rag": CHAT_TEMPLATE, "tool_use": CHAT_TEMPLATE}, "fails: ValueError"),
    "no turn of the model": (MESSAGES + TURN + "{% endfor %}", "does not begin the model's turn"),
    "its turn begun twice": (
        MESSAGES + TURN + "{% if message['role'] == 'user' %}<|im_start|>assistant\n{% endif %}{% endfor %}" + OPENED,
        "begins the model's turn more than once",
    ),
    "the question twice": (
        MESSAGES + TURN + "{% endfor %}{{ messages[-1]['content'] }}" + OPENED,
        "writes the question more than once",
    ),
    "the user left out": (
        MESSAGES + "{% if message['role'] != 'user' %}" + TURN + "{% endif %}{% endfor %}" + OPENED,
        "leaves the question out",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_template_is_refused_in_one_line_that_shows_the_prompt_or_the_slip(broken: str) -> None:
    template, expected = BROKEN[broken]
    said = refusal(template)
    assert expected in said
    assert "fails" in said or "<|im_start|>" in said or "chatml" in said


def test_a_beginning_of_text_that_is_written_twice_is_refused() -> None:
    said = refusal("{{ bos_token }}<s>" + MESSAGES + TURN + "{% endfor %}" + OPENED, bos_token="<s>")
    assert "writes <s> twice in a row" in said


def test_a_broken_template_ends_the_load_of_generators_and_trainers_alike(tmp_path: Path) -> None:
    make_module().save_pretrained(tmp_path)
    make_tokenizer(chat_template="chatml").save_pretrained(tmp_path)
    for load in (load_generator, load_policy):
        with pytest.raises(ModelError, match="leaves the question out of the prompt"):
            load(str(tmp_path), GrpoConfig(), threads=1, device="cpu")


def test_a_template_of_ones_own_mends_a_broken_one() -> None:
    tokenizer = make_tokenizer(chat_template="chatml")
    asking = suited("m", tokenizer, Asking(template_args={"chat_template": CHAT_TEMPLATE}))
    assert shown_prompt(tokenizer, encode_prompt(tokenizer, QUESTION, asking)).endswith("<|im_start|>assistant\n")


def test_generator_and_trainer_ask_in_the_form_that_was_found(tmp_path: Path) -> None:
    make_module().save_pretrained(tmp_path)
    make_tokenizer(chat_template=PARTS).save_pretrained(tmp_path)
    policy = load_policy(str(tmp_path), GrpoConfig(max_new_tokens=3), threads=1, device="cpu")
    text, _ = policy.generator.shown_prompt(QUESTION)  # type: ignore[attr-defined]
    assert QUESTION in text
    (group,) = policy.generate([QUESTION], group_size=2, seed=1)
    assert len(group) == 2


def test_an_instruction_of_ones_own_reaches_an_embedded_model() -> None:
    asking = Asking(instruction="Answer in <answer>.")
    generator = load_generator("tiny-2-qwen2", GrpoConfig(asking=asking), threads=1, device="cpu")
    assert generator.shown_prompt(QUESTION)[0] == f"<|user|>Answer in <answer>.\n\n{QUESTION}<|assistant|>"


@pytest.mark.parametrize(
    ("template", "said"), [(LLAMA_3_2, "31 Jan 2026"), (GPT_OSS, "2026-01-31")], ids=["Llama-3.2", "gpt-oss"]
)
def test_a_date_in_a_template_is_the_one_that_is_given(template: str, said: str) -> None:
    tokenizer = make_tokenizer(chat_template=template)
    assert said in prompt(tokenizer, Asking(date="2026-01-31"))
    assert said not in prompt(tokenizer)
