"""In the strict profiles a right answer earns 1, and no other answer anything."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from decimal import Decimal

import pytest

from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.types import Question
from tests.unit.tasks.gym import FAMILIES, make_question, reference_answer

QUESTIONS = 60


@functools.cache
def drawn(task: str) -> list[Question]:
    return [make_question(task, "tiny-2", seed) for seed in range(1000, 1000 + QUESTIONS)]


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_the_reference_answer_earns_1_and_where_one_answer_is_right_every_other_0(task: str) -> None:
    keys = [reference_answer(question) for question in drawn(task)]
    for question, key, other in zip(drawn(task), keys, [*keys[7:], *keys[:7]], strict=True):
        assert FAMILIES.score(question, key) == 1.0
        if task == "propositional_logic":
            continue
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
        literals = [sign + name for sign in ("", "¬") for name in "PW"]
        common += [f"({a} {c} {b})" for a, b in itertools.combinations(literals, 2) for c in "∨→"]
        common += ["((P ∨ Q) ∨ (R ∨ S))", "(P ∨ ¬P)"]
    earned = Counter[str]()
    for question in questions:  # each made once for all its answers
        earned.update({text: FAMILIES.score(question, text) for text in common})
    assert earned.most_common(1)[0][1] <= 0.34 * QUESTIONS, earned.most_common(3)


def test_a_decimal_that_is_off_within_the_tasks_own_tolerance_is_wrong() -> None:
    question = next(q for q in drawn("decimal_arithmetic") if "." in str(q.answer))
    near = f"{float(str(question.answer)) + 0.05:g}"
    tolerant = in_profile(question, "tiny")
    assert FAMILIES.score(tolerant, near) == 1.0
    assert FAMILIES.score(question, near) == 0.0
    assert FAMILIES.score(question, f"{question.answer}0") == 1.0


def test_a_decimal_on_a_half_is_rounded_up_as_the_question_asks() -> None:
    made = (make_question("decimal_arithmetic", "tiny-2", seed) for seed in range(4000))
    pairs = ((question, in_profile(question, "tiny")) for question in made)
    halves = [*itertools.islice((pair for pair in pairs if pair[0].answer != pair[1].answer), 3)]
    assert len(halves) == 3
    for strict, lax in halves:
        assert abs(Decimal(str(strict.answer))) > abs(Decimal(str(lax.answer))), strict.prompt
        assert [FAMILIES.score(strict, str(one.answer)) for one in (strict, lax)] == [1.0, 0.0]


def of_premises(*premises: str) -> Question:
    made = (make_question("propositional_logic", "tiny-2", seed) for seed in range(20_000))
    return next(one for one in made if sorted(one.metadata["premises"]) == [*premises])


def test_what_follows_in_one_step_is_right_in_propositional_logic() -> None:
    question = of_premises("(T ∧ V)", "¬W")
    right = ("T", " V ", "¬W", "¬¬T", "(T ∨ P)", "T ∧ V", "¬(W ∧ P)", "(W → P)")
    trivial = ("(P ∨ ¬P)", "(T → T)")
    no_form = ("(V ∨ banana)", "¬banana", "((T ∨ P) ∨ Q)", "T, V", "(T ∨ P", "")
    assert {answer: FAMILIES.score(question, answer) for answer in right} == dict.fromkeys(right, 1)
    wrong = ("W", "P", "(T ∨ Z)", *trivial, *no_form)
    assert {answer: FAMILIES.score(question, answer) for answer in wrong} == dict.fromkeys(wrong, 0)


def test_a_long_conclusion_costs_nothing() -> None:
    (question,) = drawn("propositional_logic")[:1]
    words = " ∨ ".join(f"w{n}" for n in range(40))
    assert FAMILIES.score(question, f"({words})") == 0.0, "its truth table would have 2**40 rows"


def test_a_fraction_stands_alone_and_may_be_whole() -> None:
    drawn = (make_question("fraction_simplification", "tiny-2", seed) for seed in range(2000))
    question = next(one for one in drawn if one.answer == "1/1")
    right = ("1", "1/1", "$1/1$")
    wrong = ("2/2", "1/1 or 3/4", "\\frac{1}{1} or \\frac{3}{4}", "1 1")
    assert {answer: FAMILIES.score(question, answer) for answer in right} == dict.fromkeys(right, 1)
    assert {answer: FAMILIES.score(question, answer) for answer in wrong} == dict.fromkeys(wrong, 0)


def in_profile(question: Question, profile: str) -> Question:
    origin = question.known_origin()
    return make_question(origin.task, profile, origin.seed, origin.index)
