"""Says what is in a task's Python file: two functions, three where the task converses.

    def draw(rng, **parameters): ...     the next question and its answer
    def score(question, answer): ...     what an answer to it is worth

    turns = 3                            where the task replies to the model: its most turns, 2 to 16
    def reply(question, answers): ...    the words after these turns of the model; None: it is over
    def score(question, answers): ...    what the whole conversation is worth
    reads = "text"                       all of a turn's text instead of what stands between the answer tags

The file is one of the user's own, known to all nodes of a run by its SHA-256. Scoring servers alone import it, once,
before their first question. Then `draw` and `score` run in child processes that are bounded (a second of processor
time for the answers of a group) and may open, import, execute and connect to nothing: what they need is imported at the
file's top, and read there.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

from swarm.types import Question

Drawn = tuple[str, str] | tuple[str, str, dict[str, Any]]
"""The question's text, its answer, and, if wanted, metadata that JSON can hold."""


class DrawFunction(Protocol):
    """`draw`."""

    def __call__(self, rng: random.Random, **parameters: Any) -> Drawn:
        """Returns the question of a random state: a function of it and of the parameters, the same on every machine.

        Args:
            rng: all that is random in it comes from here; seeded by the question's origin.
            parameters: what else stands in the task's table of the settings file.
        """


class ReplyFunction(Protocol):
    """`reply`."""

    def __call__(self, question: Question, answers: list[str | None]) -> str | None:
        """Returns what is said to the model, 1 to 4,000 characters; None: the conversation is over.

        Called anew after each turn, by every node that reads the conversation, and in no order: it follows from its
        arguments alone.

        Args:
            answers: of all turns so far, the latest one last; None for a turn without an answer between the tags.
        """


class ScoreConversation(Protocol):
    """`score` of a file that has `reply`."""

    def __call__(self, question: Question, answers: list[str | None]) -> float:
        """Returns the reward in [0, 1] of all turns together; there may be fewer than `turns`, whatever was replied."""


class ScoreFunction(Protocol):
    """`score`."""

    def __call__(self, question: Question, answer: str) -> float:
        """Returns the reward in [0, 1] of the text that somebody wrote between the answer tags.

        Args:
            question: its `prompt`, `answer` and `metadata`, as `draw` gave them.
            answer: stripped, of 2,000 characters at most, written by whoever; what `score` raises at it, or gives
                outside of [0, 1], is a reward of 0.
        """
