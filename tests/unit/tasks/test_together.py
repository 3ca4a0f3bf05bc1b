"""propositional_logic as tiny-3 and paper-2 ask it: what follows from all statements, and from none of them alone."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.tasks.gym import together
from swarm.types import Question
from tests.unit.tasks.gym import FAMILIES, make_question, reference

QUESTIONS = 60
PROFILES = ("tiny-3", "paper-2")


def drawn(profile: str, task: str = "propositional_logic") -> list[Question]:
    return [make_question(task, profile, seed) for seed in range(5000, 5000 + QUESTIONS)]


NAMES = ("P", "Q", "R")
statements = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: st.one_of(
        inner.map(lambda one: f"¬{one}"),
        st.tuples(inner, st.sampled_from("∧∨→↔"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    ),
    max_leaves=8,
)


def value(statement: str, values: dict[str, bool]) -> bool:
    """The library's own evaluation."""
    from reasoning_gym.logic.propositional_logic import Expression

    return bool(Expression.from_string(statement).evaluate(values))


ASSIGNMENTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product((False, True), repeat=len(NAMES))]


@given(statements)
def test_a_truth_table_is_what_the_library_evaluates(statement: str) -> None:
    known = together.names(len(NAMES))
    found = together.table(statement, known)
    for values in ASSIGNMENTS:
        bit = sum(1 << place for place, name in enumerate(NAMES) if values[name])
        assert bool(found >> bit & 1) == value(statement, values), (statement, values)


@given(st.lists(statements, min_size=2, max_size=4), st.sampled_from(together.conclusions(3)))
def test_right_is_what_follows_from_all_and_from_none_alone(premises: list[str], conclusion: tuple[str, int]) -> None:
    answer, _ = conclusion
    models = [values for values in ASSIGNMENTS if all(value(one, values) for one in premises)]
    follows = bool(models) and all(value(answer, values) for values in models)
    alone = any(all(value(answer, v) for v in ASSIGNMENTS if value(one, v)) for one in premises)
    assert together.is_right(answer, premises, len(NAMES)) == (follows and not alone)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_question_has_a_right_conclusion_and_its_statements_copied_or_joined_earn_nothing(profile: str) -> None:
    right = Counter[str]()
    for question in drawn(profile):
        premises = question.metadata["premises"]
        assert question.prompt.endswith((together.TOLD, together.TOLD_BRIEFLY))
        assert FAMILIES.score(question, reference(question)) == 1.0, question.prompt
        joined = [f"({a} ∧ {b})" for a, b in itertools.permutations(premises, 2)]
        for answer in (*premises, *joined, "(P ∧ ¬P)", "(P ∨ ¬P)", "", "P ∨ Q ∨ R", question.prompt[:2000]):
            assert FAMILIES.score(question, answer) == 0.0, (question.prompt, answer)
        derived = together.right_conclusions(premises, len(question.metadata["variables"]))
        assert {FAMILIES.score(question, answer) for answer in derived[:3]} == {1.0}
        right.update(derived)
    assert max(right.values()) < QUESTIONS / 3, "no conclusion is right for a third of the questions"


def test_forms_of_an_answer() -> None:
    premises = ["(P → Q)", "P", "(Q → R)"]
    assert not together.is_right("R", premises[:2], 4)
    right = ("R", " ¬ ¬R ", "(R ∧ Q)", "R ∨ S", "¬(¬R ∨ ¬Q)")
    alone = ("(P → Q)", "(P ∨ Q)", "¬R")  # a statement, what follows from the second alone, and what does not
    no_form = ("(R ∧ Q) ∨ P", "R ∨ X", "r", "(R", "R)", "(R)", "¬" * 1999 + "R")
    assert {answer: together.is_right(answer, premises, 4) for answer in right} == dict.fromkeys(right, True)
    wrong = (*alone, *no_form)
    assert {answer: together.is_right(answer, premises, 4) for answer in wrong} == dict.fromkeys(wrong, False)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_rule_of_arc_1d_changes_something_in_every_grid(profile: str) -> None:
    for question in drawn(profile, "arc_1d"):
        grids = [*question.metadata["train_examples"], question.metadata["test_example"]]
        assert all(grid["input"] != grid["output"] for grid in grids)


def test_questions_of_the_profiles_before_stay_as_they_were() -> None:
    contradictory = make_question("propositional_logic", "paper", 5004)
    assert FAMILIES.score(contradictory, "(P ∧ ¬P)") == 1.0, "for replications"
    assert not contradictory.prompt.endswith(together.TOLD)
