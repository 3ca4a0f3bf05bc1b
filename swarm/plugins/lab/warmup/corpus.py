"""Training examples of the warm-up: questions with right answers, few of them in the format that the verifier accepts.

Every example carries the reference answer; its format is drawn independently of the question, and only a few per cent
use the closed tags that the verifier accepts. So a model that knows many answers starts with little reward, which
reinforcement learning raises by learning the format.

Questions come from seeds of 2**30 and more. Runs draw theirs below that, so no run repeats a warm-up question by its
origin (small tasks have few distinct questions, and repeat some by their text).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from swarm.algo.seeds import RUN_SEED_LIMIT
from swarm.tasks.family import SEED_LIMIT, QuestionRequest
from swarm.tasks.registry import Families
from swarm.types import Question

FAMILIES = Families()
"""In this process and unguarded: what is scored here, our own models have written."""
WARMUP_SEEDS = (RUN_SEED_LIMIT, SEED_LIMIT)
"""Half-open range of the dataset seeds that warm-up and its evaluation use."""
WELL_FORMED = "<answer>{}</answer>"
"""The format that the verifier asks for."""
ILL_FORMED: tuple[tuple[str, float], ...] = (("Answer: {}", 0.24), ("[{}]", 0.15), ("<answer>{}", 0.20))
"""Other ways to write an answer, with their probabilities; what is left is written bare."""


class Example(NamedTuple):
    """One warm-up example: the loss is on the target alone."""

    task: str
    prompt: str
    target: str


def tasks_of(profile: str) -> tuple[str, ...]:
    """Returns the nine tasks."""
    return FAMILIES.profiles()[profile]


def draw_question(rng: random.Random, task: str, profile: str) -> Question:
    """Returns a fresh question of a task, from a seed that no run uses."""
    return FAMILIES.make(QuestionRequest(task, profile, rng.randrange(*WARMUP_SEEDS)))


def reference_answer(question: Question) -> str:
    """Returns a right answer; propositional_logic has many, and names one of them in its metadata.

    Where its own scorer pays nothing for that one, a premise takes its place.
    """
    if question.answer is not None:
        return question.answer
    named: str = question.metadata["example_answer"]
    return next((one for one in (named, *question.metadata["premises"]) if FAMILIES.score(question, one)), named)


def examples(seed: int, *, profile: str, p_well_formed: float, p_right: float = 1.0) -> Iterator[Example]:
    """Endless stream of examples, the nine tasks in equal shares; a function of the arguments.

    Args:
        seed: of the questions and of the choice of formats and answers.
        profile: difficulty of the questions.
        p_well_formed: share of the examples in the format that the verifier accepts.
        p_right: share of the examples with a right answer; the others have that of the task's question before.
    """
    rng = random.Random(seed)
    texts, weights = _formats(p_well_formed)
    before: dict[str, str] = {}
    while True:
        for task in tasks_of(profile):
            question = draw_question(rng, task, profile)
            right = reference_answer(question)
            answer = right if p_right >= 1 or rng.random() < p_right else before.get(task, right)
            before[task] = right
            yield Example(task, question.prompt, rng.choices(texts, weights)[0].format(answer))


def _formats(p_well_formed: float) -> tuple[list[str], list[float]]:
    """Returns all formats and their probabilities, which sum to 1; the other formats shrink where little is left for
    them."""
    ill_formed = sum(p for _, p in ILL_FORMED)
    shrunk = min(1.0, (1 - p_well_formed) / ill_formed)
    others = [(text, p * shrunk) for text, p in ILL_FORMED]
    bare = max(0.0, 1 - (p_well_formed + sum(p for _, p in others)))
    formats = [("{}", bare), *others, (WELL_FORMED, p_well_formed)]
    return [text for text, _ in formats], [p for _, p in formats]
