"""Defines what a node and its scoring servers say to each other: msgpack structs, told apart by their tag.

node ──Setup──▶ server                                                       once, at its start
node ──RequestBatch of MakeQuestion | AskReplies | ScoreAnswers──▶ server   one message of replies per batch, in order
node ◀──ServerReady or Unable, then lists of Made | Replied | GroupScore | RefusedRequest | Unfinished── server
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from swarm.config.own_code import own_codes, plain, retyped
from swarm.tasks.bounded import Limits
from swarm.tasks.conversation import Conversation, Conversing
from swarm.tasks.family import QuestionRequest
from swarm.types import Origin, Question


class Setup(msgspec.Struct, frozen=True):
    families: tuple[str, ...]
    """Families as SWARM_TASK_FAMILIES names them."""
    tasks: dict[str, dict[str, Any]] = {}
    """What the run defines, by name: parameters as swarm.tasks.registry.complete gives them."""
    own: tuple[str, ...] = ()
    """What of both is code that the node's user named: see swarm.config.own_code."""

    @classmethod
    def of(cls, families: Sequence[str], tasks: Mapping[str, Mapping[str, Any]]) -> Self:
        own = own_codes((*families, tasks))
        return cls(tuple(map(plain, families)), plain(tasks), tuple(sorted(map(str, own))))

    def typed(self) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
        return retyped(self.families, self.own), retyped(self.tasks, self.own)


class MakeQuestion(msgspec.Struct, frozen=True, tag="make"):
    question: QuestionRequest

    @property
    def distinct(self) -> tuple[str, ...]:
        """Returns none, as there is nothing to score."""
        return ()


class ScoreAnswers(msgspec.Struct, frozen=True, tag="score"):
    """Regenerate a question and score G answers to it."""

    origin: Origin
    claimed_prompt: str | None
    """The prompt that the publisher wrote beside the origin, to be compared; None skips the comparison."""
    answers: tuple[str | Conversation | None, ...]
    """G extracted answers; None for a completion without one. Of a task that converses, conversations."""

    @property
    def distinct(self) -> tuple[str | Conversation, ...]:
        """Returns the answers that a scorer sees: equal ones once, none for a completion without one."""
        return tuple(dict.fromkeys(answer for answer in self.answers if answer is not None))


class AskReplies(msgspec.Struct, frozen=True, tag="reply"):
    """Regenerate a question and say what its environment replies in each of some conversations about it."""

    origin: Origin
    conversations: tuple[tuple[str | None, ...], ...]
    """The model's turns so far, as the task reads them."""

    @property
    def distinct(self) -> tuple[tuple[str | None, ...], ...]:
        """Equal ones once."""
        return tuple(dict.fromkeys(self.conversations))


Request = MakeQuestion | AskReplies | ScoreAnswers


class RequestBatch(msgspec.Struct, frozen=True):
    """Requests that share one bounded child. A lone one is seen through to a reply other than Unfinished."""

    requests: tuple[Request, ...]
    limits: Limits
    """Limits of each child, however many requests it serves."""


class ServerReady(msgspec.Struct, frozen=True, tag="ready"):
    """Said once by a server: everything is imported, requests may come."""

    versions: dict[str, str]
    """Family -> version."""
    bars: tuple[str, ...] = ()
    """Bars of swarm.tasks.bars: those that are up."""
    conversing: dict[str, Conversing] = {}
    """How tasks converse, by full name."""


class Unable(msgspec.Struct, frozen=True, tag="unable"):
    """Said instead of ServerReady: something that the run defines cannot be asked, or this machine runs no children."""

    problem: str
    machine: bool = False
    """It is the machine's fault, and not the run's."""


class Made(msgspec.Struct, frozen=True, tag="made"):
    question: Question


class GroupScore(msgspec.Struct, frozen=True, tag="scored"):
    """This node's own verdict on one rollout group."""

    question: Question
    """Regenerated from the origin; the publisher's copy is never used."""
    rewards: tuple[float, ...]
    """G rewards in [0, 1]; 0.0 where there is no answer or scoring it went wrong."""
    answered: tuple[bool, ...]
    """G flags: the completion held a closed <answer>...</answer>, of a conversation any of its turns; or any text where
    the task reads that. Empty as a server gives it, which sees no completions."""
    killed: int
    """Answers whose scoring had to be killed: a hang, a memory bomb, an attempt to run code."""
    errors: int
    """Answers at which the task's scorer raised, or gave no number in [0, 1]."""
    slow: float = 0.0
    """What slow answers took that were not killed, in limits of processor time: as dear as so many that were."""


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """Holds what the environment says in each conversation."""

    replies: tuple[str | None, ...]
    """None: the conversation is over."""
    killed: int = 0
    """Conversations that are over because making the reply had to be killed."""
    errors: int = 0
    """And those in which the environment raised, or gave no reply that may be one."""


class RefusedRequest(msgspec.Struct, frozen=True, tag="refused"):
    """The request cannot be served; reason and detail are those of a ProtocolError."""

    reason: str
    detail: str
    killed: int = 0
    slow: float = 0.0
    """Both as of GroupScore, before it was refused."""


class Unfinished(msgspec.Struct, frozen=True, tag="unfinished"):
    """The shared child ended before this request was served; it is to be asked again, alone."""


Reply = Made | Replied | GroupScore | RefusedRequest
