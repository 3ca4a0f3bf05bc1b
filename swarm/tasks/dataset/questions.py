"""Questions from the rows of datasets, and what answers are worth, in a scoring server.

The row of a question is a function of its seed and index: the seed is hashed and taken modulo the number of rows, and
the index counts on from there. Seeds of judges and exams (swarm.algo.seeds.HELD_OUT_SEEDS) draw from the rows that
`held_out` sets aside, and all others from the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

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
            own_answers.check(task, own_answers.SECONDS / len(self._loaded))

    def make(self, origin: Origin) -> Question:
        """Returns the row's question; its number is in the metadata."""
        task, number = self._row(origin)
        row = task.row(number)
        prompt = fill(task.definition.question, row.columns)
        return Question(prompt, origin, text_of(row.truth), {"row": number})

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward by the task's scorer. Raises what that raises."""
        task, number = self._row(question.known_origin())
        return task.scorer.score(task.row(number), answer)

    def trial(self, question: Question, answer: str) -> Trial:
        """Returns how an answer that is code is tried; see swarm.tasks.trial."""
        from swarm.tasks.dataset.scorers import unit_tests  # imported already, where a task has this scorer

        task, number = self._row(question.known_origin())
        return unit_tests.trial(task.row(number), answer)

    def _row(self, origin: Origin) -> tuple[LoadedTask, int]:
        """Returns the task of a question, and the number of its row."""
        task = self._loaded[origin.task]
        return task, row_number(task.training, task.held_out, origin.seed, origin.index)


def row_number(training: Sequence[int], held_out: Sequence[int], seed: int, index: int) -> int:
    """Returns which row a seed and an index ask, of those that runs ask and of those that judges and exams ask."""
    first, end = HELD_OUT_SEEDS
    numbers = held_out if first <= seed < end else training
    hashed = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8])
    return numbers[(hashed + index) % len(numbers)]
