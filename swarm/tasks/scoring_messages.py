"""What a node and its scoring servers say to each other: msgpack structs, told apart by their tag.

node ──Batch of MakeQuestions | ScoreAnswers──▶ server        one message of replies per batch, in order
node ◀──Ready, then lists of Made | Scored | Refused | Unfinished── server
"""

from __future__ import annotations

import msgspec

from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.types import Origin, Question


class MakeQuestions(msgspec.Struct, frozen=True, tag="make"):
    """Generate these questions."""

    questions: tuple[QuestionRequest, ...]


class ScoreAnswers(msgspec.Struct, frozen=True, tag="score"):
    """Regenerate a question and score G answers to it."""

    origin: Origin
    claimed_prompt: str | None
    """The prompt that the publisher wrote beside the origin, to be compared; None skips the comparison."""
    answers: tuple[str | None, ...]
    """G extracted answers; None for a completion without one."""

    @property
    def distinct(self) -> tuple[str, ...]:
        """The answers that a scorer sees: equal ones once, none for a completion without one."""
        return tuple(dict.fromkeys(answer for answer in self.answers if answer is not None))


Request = MakeQuestions | ScoreAnswers


class Batch(msgspec.Struct, frozen=True):
    """Requests that share one bounded child. A lone one is seen through to a reply other than Unfinished."""

    requests: tuple[Request, ...]
    limits: Limits
    """Of each child, however many requests it serves."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Said once by a server: everything is imported, requests may come."""

    versions: dict[str, str]
    """Family -> version."""
    bars: tuple[str, ...] = ()
    """Of swarm.tasks.bars: those that are up."""


class Made(msgspec.Struct, frozen=True, tag="made"):
    """The generated questions, in order."""

    questions: tuple[Question, ...]


class Scored(msgspec.Struct, frozen=True, tag="scored"):
    """The regenerated question and G rewards."""

    question: Question
    rewards: tuple[float, ...]
    killed: int
    """Answers whose scoring had to be killed; their rewards are 0.0."""
    errors: int
    """Answers whose scorer raised or gave no number in [0, 1]; their rewards are 0.0."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The request cannot be served; reason and detail are those of a ProtocolError."""

    reason: str
    detail: str


class Unfinished(msgspec.Struct, frozen=True, tag="unfinished"):
    """The shared child ended before this request was served; it is to be asked again, alone."""


Reply = Made | Scored | Refused
