"""Which questions a node asks itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import swarm
from swarm.node.sharing.admission import AssignedQuestions
from swarm.tasks.family import QuestionRequest
from swarm.tasks.universe import Universe
from swarm.types import RoundKey
from tests.unit.node.factories import DRAWS, TASKS

R3 = RoundKey(3)


def test_draws_are_what_they_were_in_the_first_run_ever() -> None:
    """Peers of two versions would refuse each other's groups if this changed: it is part of the protocol."""
    universe = Universe.of(("bf", "arc_1d", "base_conversion"), "tiny")
    assert AssignedQuestions(42, universe).questions("anna", RoundKey(17), 3) == [
        QuestionRequest("base_conversion", "tiny", 759014466, 0),
        QuestionRequest("bf", "tiny", 621763024, 0),
        QuestionRequest("bf", "tiny", 625668219, 0),
    ]


def test_the_first_questions_of_many_are_those_of_few() -> None:
    assert DRAWS.questions("anna", R3, 64)[:5] == DRAWS.questions("anna", R3, 5)


def test_every_node_round_stage_and_slot_has_questions_of_its_own() -> None:
    keys = [RoundKey(3, 0), RoundKey(3, 1), RoundKey(4, 0)]
    seeds = [q.seed for node in ("anna", "ben") for key in keys for q in DRAWS.questions(node, key, 8)]
    assert len(set(seeds)) == len(seeds) == 48


def test_another_run_or_other_tasks_ask_other_questions() -> None:
    mine = DRAWS.questions("anna", R3, 8)
    assert AssignedQuestions(43, Universe.of(TASKS, "tiny")).questions("anna", R3, 8) != mine
    assert AssignedQuestions(42, Universe.of(TASKS[::-1], "tiny")).questions("anna", R3, 8) != mine
    assert AssignedQuestions(42, Universe.of(TASKS, "paper")).questions("anna", R3, 8) != mine


def test_the_protocol_page_says_how_they_are_drawn() -> None:
    page = (Path(swarm.__file__).parent / "wire" / "PROTOCOL.md").read_text("utf-8")
    (code,) = re.findall(r"^## Which questions are drawn\n.*?```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"run_seed": 42, "node": "anna", "round": 3, "stage": 0, "tasks": TASKS, "slots": 5}
    exec(code, names)
    drawn = [(question.task, question.seed) for question in DRAWS.questions("anna", R3, 5)]
    assert list(zip(names["task_of_slot"], names["seed_of_slot"], strict=True)) == drawn
