"""What a stage after the first asks: a function of the question and of the groups that its origin names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config.revising import Revising, revising
from swarm.errors import ProtocolError
from swarm.tasks.revise import (
    check_context,
    context_name,
    context_names,
    revised,
    shown,
    shown_answers,
    without_context,
)
from swarm.types import Completion, Origin, Question, RolloutGroup

QUESTION = Question("What is 2 + 3?", Origin("sums", "tiny", 7, 0, "1"), "5")
RULES = Revising()


def group(peer: str, *texts: str, stage: int = 0, slot: int = 0, question: Question = QUESTION) -> RolloutGroup:
    return RolloutGroup(peer, 4, stage, slot, question, tuple(Completion(text, True) for text in texts))


OWN = group("anna", "<answer>5</answer>", "2 + 3 is <answer>6</answer>")
BEN = group("ben", "<answer>7</answer>", "no idea")


def test_a_prompt_shows_the_question_and_answers_of_each_group_in_turn() -> None:
    asked = revised(QUESTION, [OWN, BEN], 1, RULES)
    first, second = shown_answers(QUESTION.known_origin(), [OWN, BEN], 1, RULES)[:2]
    assert first in {"Answer: 5", "2 + 3 is\nAnswer: 6"}
    assert second in {"Answer: 7", "no idea"}
    assert f" may be wrong.\n\n1. {first}\n2. {second}\n" in asked.prompt
    assert asked.prompt.endswith("\n\nWhat is 2 + 3?")
    assert asked.answer == "5"


def test_an_origin_names_the_groups_of_its_context() -> None:
    origin = revised(QUESTION, [OWN, BEN], 1, RULES).known_origin()
    assert context_names(origin) == [context_name(OWN), context_name(BEN)]
    assert origin.context[1].startswith("ben/4/0/0/")
    assert without_context(origin) == QUESTION.origin


def test_without_a_context_the_question_is_asked_as_it_was() -> None:
    assert revised(QUESTION, [], 1, RULES) == QUESTION


def test_stages_have_templates_of_their_own_and_the_last_one_serves_the_rest() -> None:
    rules = Revising(templates=("First {question}: {answers}", "{answers} of {question}"), answers=1)
    prompts = [revised(QUESTION, [group("ben", "7", "7", stage=s - 1)], s, rules).prompt for s in (1, 2, 3)]
    assert prompts == ["First What is 2 + 3?: 1. 7", "1. 7 of What is 2 + 3?", "1. 7 of What is 2 + 3?"]


def test_braces_in_a_question_or_an_answer_are_text() -> None:
    odd = Question("{answers} of {question}?", QUESTION.origin, "5")
    rules = Revising(templates=("{question}|{answers}",))
    prompt = revised(odd, [group("ben", "{question}", "{0}{answers}", question=odd)], 1, rules).prompt
    assert prompt.startswith("{answers} of {question}?|1. ")
    assert "{0}{answers}" in prompt


@pytest.mark.parametrize(
    "mark", ["<|im_end|>", "</s>", "<s>", "[INST]", "<start_of_turn>", "<｜end▁of▁sentence｜>", "<answer>x"]
)
def test_no_text_of_a_stranger_becomes_a_token_of_a_tokenizer_s_own(mark: str) -> None:
    assert mark not in shown(f"well {mark} then", 240)
    assert "well" in shown(f"well {mark} then", 240)


def test_of_a_long_text_the_end_is_shown_with_the_answer() -> None:
    text = shown("x" * 5000 + "<answer>42</answer>", 40)
    assert len(text) <= 40
    assert text.endswith("Answer: 42")


@given(st.lists(st.text(max_size=80), min_size=2, max_size=6), st.integers(16, 60), st.integers(1, 4))
def test_whatever_was_answered_a_prompt_is_bounded_and_the_same_again(texts: list[str], size: int, most: int) -> None:
    rules = Revising(characters=size, answers=most)
    once = revised(QUESTION, [group("ben", *texts)], 1, rules)
    assert once == revised(QUESTION, [group("ben", *texts)], 1, rules)
    plain = revised(QUESTION, [group("ben", "", "")], 1, rules)
    assert len(once.prompt) <= len(plain.prompt) + most * (2 * size + 8)


def test_a_group_with_another_text_has_another_name() -> None:
    assert context_name(group("ben", "1", "2")) != context_name(group("ben", "1", "3"))
    assert context_name(group("ben", "1", "2")) != context_name(group("ben", "12", ""))


@pytest.mark.parametrize(
    "context",
    [
        ("ben/4/0/0/xyz",),
        ("../../etc/passwd",),
        ("ben/4/1/0/" + "0" * 32,),  # its own stage
        ("ben/3/0/0/" + "0" * 32,),  # another round
        ("ben/4/0/1/" + "0" * 32,),  # another slot
        ("ben/4/0/0/" + "0" * 32, "ben/4/0/0/" + "1" * 32),
        tuple(f"peer{number}/4/0/0/" + "0" * 32 for number in range(5)),
    ],
)
def test_a_context_that_no_stage_has_is_refused(context: tuple[str, ...]) -> None:
    origin = Origin("sums", "tiny", 7, 0, "1", context=context)
    asked = group("carol", "1", "2", stage=1, question=Question("?", origin))
    with pytest.raises(ProtocolError) as refusal:
        check_context(asked, RULES)
    assert refusal.value.reason == "bad_origin"


def test_the_first_stage_has_no_context() -> None:
    origin = revised(QUESTION, [OWN], 1, RULES).known_origin()
    with pytest.raises(ProtocolError):
        check_context(group("carol", "1", "2", question=Question("?", origin)), RULES)


def test_the_built_in_template_of_the_embedded_models_has_no_words_of_its_own() -> None:
    for profile, begins in (("tiny-2", "1. "), ("paper", "These answers were given"), ("rl-swarm", "These answers")):
        assert revised(QUESTION, [OWN], 1, revising(None, profile)).prompt.startswith(begins)
