"""Questions from the rows of datasets, and what answers are worth, in a scoring server.

The row of a question is a function of its seed and index: the seed is hashed and taken modulo the number of rows, and
the index counts on from there. Seeds of judges and exams (swarm.algo.seeds.HELD_OUT_SEEDS) draw from the rows that
`held_out` sets aside, and all others from the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from swarm.algo.seeds import HELD_OUT_SEEDS
from swarm.tasks.dataset import own_answers
from swarm.tasks.dataset.definition import DatasetDefinition
from swarm.tasks.dataset.loading import LoadedTask, fill, load, text_of
from swarm.tasks.family import Trial
from swarm.types import Origin, Question


class DatasetQuestions:
    """The behaviour of the dataset family with some tasks; see swarm.tasks.family.Behaviour."""

    def __init__(self, definitions: Mapping[str, DatasetDefinition]) -> None:
        self._definitions = definitions
        self._loaded: dict[str, LoadedTask] = {}

    def prepare(self) -> None:
        """Load all rows. Raises ConfigError."""
        self._loaded = {name: load(definition) for name, definition in self._definitions.items()}
        for task in self._loaded.values():
            own_answers.check(task, own_answers.say_on_stderr, own_answers.SECONDS / len(self._loaded))

    def make(self, origin: Origin) -> Question:
        """Returns the row's question; its number is in the metadata."""
        task = self._loaded[origin.task]
        number = row_number(task, origin.seed, origin.index)
        row = task.row(number)
        prompt = fill(task.definition.question, row.columns)
        return Question(prompt, origin, text_of(row.truth), {"row": number})

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward by the task's scorer. Raises what that raises."""
        origin = question.known_origin()
        task = self._loaded[origin.task]
        return task.scorer.score(task.row(row_number(task, origin.seed, origin.index)), answer)

    def trial(self, question: Question, answer: str) -> Trial:
        """Returns how an answer that is code is tried; see swarm.tasks.trial."""
        from swarm.tasks.dataset.scorers import unit_tests  # imported already, where a task has this scorer

        origin = question.known_origin()
        task = self._loaded[origin.task]
        return unit_tests.trial(task.row(row_number(task, origin.seed, origin.index)), answer)


class Parted(Protocol):
    """Numbers of rows; see swarm.tasks.dataset.loading.LoadedTask."""

    @property
    def training(self) -> Sequence[int]:
        """Returns the numbers of the rows that runs ask."""

    @property
    def held_out(self) -> Sequence[int]:
        """Returns the numbers of the rows that judges and exams ask."""


def row_number(task: Parted, seed: int, index: int) -> int:
    """Returns which row a seed and an index ask."""
    first, end = HELD_OUT_SEEDS
    numbers = task.held_out if first <= seed < end else task.training
    hashed = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8])
    return numbers[(hashed + index) % len(numbers)]
