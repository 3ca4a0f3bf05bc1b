"""The first family, asked in this process."""

from __future__ import annotations

from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families
from swarm.types import FIRST_FAMILY, Question

FAMILIES = Families()
GYM_VERSION = FAMILIES.versions[FIRST_FAMILY]


def make_question(task: str, profile: str = "tiny", seed: int = 1, index: int = 0) -> Question:
    return FAMILIES.make(QuestionRequest(task, profile, seed, index))


def reference(question: Question) -> str:
    """A right answer."""
    return str(question.metadata["example_answer"] if question.answer is None else question.answer)


def reference_answer(question: Question) -> str:
    """A right answer that earns 1: where the named one of propositional_logic does not, a premise does."""
    named = reference(question)
    premises = question.metadata["premises"] if question.answer is None else ()
    return next((str(one) for one in (named, *premises) if FAMILIES.score(question, str(one))), named)
