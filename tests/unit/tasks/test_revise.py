"""What a stage after the first asks: a function of the question and of the groups that its origin names."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swarm.config.revising import TEMPLATE, Revising, revising
from swarm.errors import ProtocolError
from swarm.tasks.revise import check_context, context_name, context_names, revised, without_context
from swarm.types import Completion, Origin, Question, RolloutGroup, Turn

QUESTION = Question("What is 2 + 3?", Origin("sums", "tiny", 7, 0, "1"), "5")
RULES = Revising()


def group(peer: str, *texts: str, stage: int = 0, slot: int = 0, question: Question = QUESTION) -> RolloutGroup:
    return RolloutGroup(peer, 4, stage, slot, question, tuple(Completion(text, True) for text in texts))


OWN = group("anna", "<answer>5</answer>", "2 + 3 is <answer>6</answer>")
BEN = group("ben", "<answer>7</answer>", "no idea")


def test_an_origin_names_the_groups_of_its_context() -> None:
    origin = revised(QUESTION, [OWN, BEN], 1, RULES).known_origin()
    assert context_names(origin) == [context_name(OWN), context_name(BEN)]
    assert origin.context[1].startswith("ben/4/0/0/")
    assert without_context(origin) == QUESTION.origin
    assert revised(QUESTION, [], 1, RULES) == QUESTION, "without one it is asked as it was"


def test_stages_have_templates_of_their_own_and_the_last_one_serves_the_rest() -> None:
    rules = Revising(templates=("First {question}: {answers}", "{answers} of {question}"), answers=1)
    prompts = [revised(QUESTION, [group("ben", "7", "7", stage=s - 1)], s, rules).prompt for s in (1, 2, 3)]
    assert prompts == ["First What is 2 + 3?: 1. 7", "1. 7 of What is 2 + 3?", "1. 7 of What is 2 + 3?"]


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
    with pytest.raises(ProtocolError, match=r"^bad_origin"):
        check_context(asked, RULES)
    first = group("carol", "1", "2", question=revised(QUESTION, [OWN], 1, RULES))
    with pytest.raises(ProtocolError, match=r"^bad_origin"):
        check_context(first, RULES)


def test_the_built_in_template_of_the_embedded_models_has_no_words_of_its_own() -> None:
    for profile, begins in (("tiny-2", "1. "), ("paper", "These answers were given"), ("rl-swarm", "These answers")):
        assert revised(QUESTION, [OWN], 1, revising(None, profile)).prompt.startswith(begins)


# ── PROTOCOL.md says how the prompt is made; a plain reading of it makes the same ─────────────────────────────────────
ORIGIN_AS_JSON = {"task": "sums", "profile": "tiny", "seed": 1234, "index": 0, "gym_version": "1"}


def digest(texts: list[list[str]]) -> str:
    said = json.dumps([ORIGIN_AS_JSON, [[turns, True] for turns in texts]], separators=(",", ":"), ensure_ascii=False)
    return blake2b(said.encode(), digest_size=16).hexdigest()


def shown_by_the_protocol(text: str, characters: int) -> str:
    close = text.rfind("</answer>")
    opening = text.rfind("<answer>", 0, max(close, 0))
    if opening >= 0:
        answer = text[opening + 8 : text.find("</answer>", opening + 8)].strip()
        thoughts = text[:opening].replace("<answer>", "").replace("</answer>", "").strip()
        text = "\n".join(part for part in (thoughts, f"Answer: {answer}") if part)
    else:
        text = text.replace("<answer>", "").replace("</answer>", "").strip()
    return re.sub(r"([<\[])(?=[^\s\d])", r"\1 ", text[-characters:].strip())


def by_the_protocol(prompt: str, groups: list[tuple[str, list[list[str]]]], most: int, characters: int) -> Any:
    columns = []
    for peer, texts in groups:
        distinct = sorted({shown_by_the_protocol(turns[-1], characters) for turns in texts} - {""})
        purpose = "\x1f".join(["1234", "str:answers shown", "int:1", f"str:{peer}", "int:2"])
        seed = int.from_bytes(blake2b(purpose.encode(), digest_size=8).digest()) % 2**30
        Random(seed).shuffle(distinct)
        columns.append(distinct)
    answers: list[str] = []
    for turn in range(max((len(column) for column in columns), default=0)):
        for column in columns:
            if turn < len(column) and column[turn] not in answers:
                answers.append(column[turn])
    listed = "\n".join(f"{number}. {answer}" for number, answer in enumerate(answers[:most], 1))
    before, after = TEMPLATE.split("{question}")
    context = [f"{peer}/5/0/2/{digest(texts)}" for peer, texts in groups]
    return before.replace("{answers}", listed) + prompt + after.replace("{answers}", listed), context


pieces = st.sampled_from(
    ["<answer>", "</answer>", "4", " ", "<|im_end|>", "</s>", "[INST]", "\n", "{question}", "{0}{answers}", "ü", "< b"]
)
texts = st.lists(pieces, max_size=6).map("".join)
conversations = st.lists(st.lists(texts, min_size=1, max_size=2), min_size=2, max_size=4)


@example([[[""], ["<answer></answer>4<answer>"]]], 1, 16)
@given(st.lists(conversations, min_size=1, max_size=3), st.integers(1, 4), st.integers(16, 40))
def test_the_prompt_of_a_later_stage_is_what_the_protocol_says(
    by_peer: list[list[list[str]]], most: int, characters: int
) -> None:
    question = Question("What is {answers}?", Origin("sums", "tiny", 1234, 0, "1"))
    groups = [(f"peer{number}", said) for number, said in enumerate(by_peer)]
    context = [
        RolloutGroup(
            *(peer, 5, 0, 2, question),
            tuple(
                Completion(turns[-1], True, earlier=tuple(Turn(turn, True, "go on") for turn in turns[:-1]))
                for turns in said
            ),
        )
        for peer, said in groups
    ]
    asked = revised(question, context, 1, Revising(answers=most, characters=characters))
    prompt, names = by_the_protocol(question.prompt, groups, most, characters)
    assert asked.prompt == prompt
    assert list(asked.known_origin().context) == names
