"""In the strict profiles a right answer earns 1, and no other answer anything."""

from __future__ import annotations

import itertools
from collections import Counter
from decimal import Decimal

import pytest

from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.types import Question
from tests.unit.tasks.gym import FAMILIES, make_question, reference_answer

QUESTIONS = 60


def drawn(task: str) -> list[Question]:
    return [make_question(task, "tiny-2", seed) for seed in range(1000, 1000 + QUESTIONS)]


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_the_reference_answer_of_every_question_earns_1(task: str) -> None:
    assert [FAMILIES.score(question, reference_answer(question)) for question in drawn(task)] == [1.0] * QUESTIONS


@pytest.mark.parametrize("task", [task for task in SAPO_TASKS if task != "propositional_logic"])
def test_where_one_answer_is_right_every_other_earns_0(task: str) -> None:
    questions = drawn(task)
    keys = [reference_answer(question) for question in questions]
    for question, key, other in zip(questions, keys, [*keys[7:], *keys[:7]], strict=True):
        for wrong in (other, key + "0", "0" + key, key[:-1], key + " " + other, "", "nan", "None"):
            earned = FAMILIES.score(question, wrong)
            assert earned in (0.0, 1.0)
            assert earned == 0.0 or same_value(task, key, wrong), (question.prompt, key, wrong)


def same_value(task: str, key: str, answer: str) -> bool:
    """Other spellings of one number are right."""
    if task in ("decimal_arithmetic", "basic_arithmetic"):
        return float(answer) == float(key)
    if task == "fraction_simplification":
        return [int(part) for part in answer.split("/")] == [int(part) for part in key.split("/")]
    return answer.strip() == key.strip()


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_no_answer_is_right_for_most_questions_of_a_task(task: str) -> None:
    questions = drawn(task)
    common = [key for key, _ in Counter(reference_answer(question) for question in questions).most_common(8)]
    if task == "propositional_logic":
        literals = [sign + name for sign in ("", "¬") for name in "PQRW"]
        common += [f"({a} {c} {b})" for a, b in itertools.permutations(literals, 2) for c in "∨→"]
        common += ["((P ∨ Q) ∨ (R ∨ S))", "(P ∨ ¬P)"]
    earned = {text: sum(FAMILIES.score(question, text) for question in questions) for text in common}
    assert max(earned.values()) <= 0.34 * QUESTIONS, max(earned, key=lambda text: earned[text])


def test_a_decimal_that_is_off_within_the_tasks_own_tolerance_is_wrong() -> None:
    question = next(q for q in drawn("decimal_arithmetic") if "." in str(q.answer))
    near = f"{float(str(question.answer)) + 0.05:g}"
    tolerant = in_profile(question, "tiny")
    assert FAMILIES.score(tolerant, near) == 1.0
    assert FAMILIES.score(question, near) == 0.0
    assert FAMILIES.score(question, f"{question.answer}0") == 1.0


def test_a_decimal_on_a_half_is_rounded_up_as_the_question_asks() -> None:
    found = 0
    for seed in range(4000):
        question = make_question("decimal_arithmetic", "tiny-2", seed)
        tolerant = in_profile(question, "tiny")
        if question.answer != tolerant.answer:
            found += 1
            assert abs(Decimal(str(question.answer))) > abs(Decimal(str(tolerant.answer))), question.prompt
            assert FAMILIES.score(question, str(question.answer)) == 1.0
            assert FAMILIES.score(question, str(tolerant.answer)) == 0.0
    assert 4 <= found <= 60


PREMISES = ["(T ∧ V)", "¬W"]


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("T", 1),
        (" V ", 1),
        ("¬W", 1),
        ("¬¬T", 1),
        ("(T ∨ P)", 1),
        ("T ∧ V", 1),
        ("¬(W ∧ P)", 1),
        ("(W → P)", 1),
        ("W", 0),
        ("P", 0),
        ("(P ∨ ¬P)", 0),
        ("(T → T)", 0),
        ("(V ∨ banana)", 0),
        ("¬banana", 0),
        ("(T ∨ Z)", 0),
        ("((T ∨ P) ∨ Q)", 0),
        ("T, V", 0),
        ("(T ∨ P", 0),
        ("", 0),
    ],
)
def test_what_follows_in_one_step_is_right_in_propositional_logic(answer: str, right: int) -> None:
    question = next(
        q
        for q in (make_question("propositional_logic", "tiny-2", seed) for seed in range(20000))
        if sorted(q.metadata["premises"]) == sorted(PREMISES)
    )
    assert FAMILIES.score(question, answer) == right


def test_a_long_conclusion_costs_nothing() -> None:
    (question,) = drawn("propositional_logic")[:1]
    words = " ∨ ".join(f"w{n}" for n in range(40))
    assert FAMILIES.score(question, f"({words})") == 0.0, "its truth table would have 2**40 rows"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("1", 1),
        ("1/1", 1),
        ("$1/1$", 1),
        ("2/2", 0),
        ("1/1 or 3/4", 0),
        ("\\frac{1}{1} or \\frac{3}{4}", 0),
        ("1 1", 0),
    ],
)
def test_a_fraction_stands_alone_and_may_be_whole(answer: str, right: int) -> None:
    drawn = (make_question("fraction_simplification", "tiny-2", seed) for seed in range(2000))
    question = next(one for one in drawn if one.answer == "1/1")
    assert FAMILIES.score(question, answer) == right


def in_profile(question: Question, profile: str) -> Question:
    origin = question.known_origin()
    return make_question(origin.task, profile, origin.seed, origin.index)
