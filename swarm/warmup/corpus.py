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
PROFILE = "tiny"
TASKS = FAMILIES.profiles()[PROFILE]
WELL_FORMED = "<answer>{}</answer>"
"""The format that the verifier asks for."""
ILL_FORMED: tuple[tuple[str, float], ...] = (("Answer: {}", 0.24), ("[{}]", 0.15), ("<answer>{}", 0.20))
"""Other ways to write an answer, with their probabilities; what is left is written bare."""


class Example(NamedTuple):
    """One warm-up example: the loss is on the target alone."""

    task: str
    prompt: str
    target: str


def draw_question(rng: random.Random, task: str) -> Question:
    """A fresh question of a task, from a seed that no run uses."""
    return FAMILIES.make(QuestionRequest(task, PROFILE, rng.randrange(*WARMUP_SEEDS)))


def reference_answer(question: Question) -> str:
    """A right answer; propositional_logic has many, and names one of them in its metadata."""
    return question.metadata["example_answer"] if question.answer is None else question.answer


def examples(seed: int, *, p_well_formed: float) -> Iterator[Example]:
    """Endless stream of examples, the nine tasks in equal shares; a function of the arguments.

    Args:
        seed: of the questions and of the choice of formats.
        p_well_formed: share of the examples that the verifier would accept.
    """
    rng = random.Random(seed)
    texts, weights = _formats(p_well_formed)
    while True:
        for task in TASKS:
            question = draw_question(rng, task)
            written = rng.choices(texts, weights)[0].format(reference_answer(question))
            yield Example(task, question.prompt, written)


def _formats(p_well_formed: float) -> tuple[list[str], list[float]]:
    """All formats and their probabilities, which sum to 1."""
    taken = p_well_formed + sum(p for _, p in ILL_FORMED)
    formats = [("{}", 1 - taken), *ILL_FORMED, (WELL_FORMED, p_well_formed)]
    return [text for text, _ in formats], [p for _, p in formats]
