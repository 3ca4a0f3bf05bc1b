"""Questions of the tables from their origins, and what an answer is worth."""

from __future__ import annotations

import hashlib

from swarm.plugins.lab.facts.tables import KEY_NAMES, KEYS, word_of
from swarm.types import Origin, Question


def prepare() -> None:
    """Prepares nothing: there is nothing to import."""


def make(origin: Origin) -> Question:
    """Returns the question whose key the seed and index draw, each of a table's keys alike."""
    drawn = hashlib.sha256(f"{origin.seed} {origin.index}".encode()).digest()
    return question_of(origin, int.from_bytes(drawn[:8], "big") % KEYS + 1)


def question_of(origin: Origin, key: int) -> Question:
    """Makes the question that asks for a key of the origin's table."""
    prompt = f"Which word has table {origin.task} at {KEY_NAMES[key - 1]}?"
    return Question(prompt, origin, word_of(origin.task, key), {"key": key})


def score(question: Question, answer: str) -> float:
    """1 for the word itself, whatever its case; 0 for anything else."""
    return float(answer.lower() == question.answer)
