"""PROTOCOL.md says how the prompt of a later stage is made; a plain reading of it makes the same."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from random import Random
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from swarm.config.revising import TEMPLATE, Revising
from swarm.tasks.revise import revised
from swarm.types import Completion, Origin, Question, RolloutGroup, Turn

ORIGIN = {"task": "sums", "profile": "tiny", "seed": 1234, "index": 0, "gym_version": "1"}


def digest(texts: list[list[str]]) -> str:
    said = json.dumps([ORIGIN, [[turns, True] for turns in texts]], separators=(",", ":"), ensure_ascii=False)
    return blake2b(said.encode(), digest_size=16).hexdigest()


def shown(text: str, characters: int) -> str:
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
        distinct = sorted({shown(turns[-1], characters) for turns in texts} - {""})
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


pieces = st.sampled_from(["<answer>", "</answer>", "4", " ", "<|im_end|>", "[INST]", "\n", "{question}", "ü", "< b"])
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
