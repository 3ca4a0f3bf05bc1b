"""Which held-out question goes to whom."""

from __future__ import annotations

from collections import Counter

import pytest

from swarm.algo.seeds import HELD_OUT_SEEDS
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.judge.judge_machine import Slot
from swarm.judge.questions import HeldOutQuestions, questions_of
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.wire.messages import ExperimentFile

QUESTIONS = HeldOutQuestions(42, dict.fromkeys(SAPO_TASKS, "tiny"))


def make_experiment(**identity: object) -> ExperimentFile:
    return ExperimentFile(experiment_name="exp", created_at=1.0, created_by="clock", identity=identity)


def test_a_question_is_a_function_of_the_experiments_seed_the_node_and_the_round() -> None:
    same = HeldOutQuestions(42, dict.fromkeys(SAPO_TASKS, "tiny"))
    slots = [Slot(round_, node) for round_ in range(20) for node in ("anna", "ben")]
    assert [QUESTIONS.request(slot) for slot in slots] == [same.request(slot) for slot in slots]
    assert len({QUESTIONS.request(slot).seed for slot in slots}) == len(slots)
    assert len({QUESTIONS.question_id(slot) for slot in slots}) == len(slots)
    other = HeldOutQuestions(43, dict.fromkeys(SAPO_TASKS, "tiny"))
    assert all(QUESTIONS.request(slot) != other.request(slot) for slot in slots)


def test_questions_come_from_the_held_out_seeds() -> None:
    seeds = {QUESTIONS.request(Slot(round_, "anna")).seed for round_ in range(100)}
    assert all(HELD_OUT_SEEDS[0] <= seed < HELD_OUT_SEEDS[1] for seed in seeds)


def test_each_node_is_asked_every_task_equally_often_in_an_order_of_its_own() -> None:
    asked = {node: [QUESTIONS.request(Slot(r, node)).task for r in range(27)] for node in ("anna", "ben")}
    for tasks in asked.values():
        assert Counter(tasks) == dict.fromkeys(SAPO_TASKS, 3)
        assert set(tasks[9:18]) == set(SAPO_TASKS)
    assert asked["anna"] != asked["ben"]


def test_the_experiment_says_what_is_asked() -> None:
    assert questions_of(make_experiment(seed=42, profile="tiny", tasks=None), Settings()) == QUESTIONS
    assert questions_of(make_experiment(seed=1, profile="paper", tasks=["bf"]), Settings()).profiles == {"bf": "paper"}


@pytest.mark.parametrize(
    "identity",
    [
        *({}, {"seed": "x", "profile": "tiny"}, {"seed": 1, "profile": "huge"}),
        *({"seed": 1, "profile": "tiny", "tasks": tasks} for tasks in (["x"], "bf", 5, [["bf"]])),
        {"seed": 1, "profile": ["tiny"], "tasks": None},
    ],
)
def test_an_experiment_of_another_kind_is_refused(identity: dict[str, object]) -> None:
    with pytest.raises(ExperimentError, match="expected a seed"):
        questions_of(make_experiment(**identity), Settings())
