"""Tasks whose environment answers each turn of the model, until the conversation is over.

    prompt ─▶ turn 1 ─reply─▶ turn 2 ─reply─▶ ... ─▶ last turn ─score_conversation─▶ one reward
                         the model's turns are handed over as `reads` says; None where there is nothing of the kind

A behaviour converses in the tasks that its `conversing` names, once it is prepared:

    conversing = {"guess": Conversing(turns=3)}

What it has to keep, beside the contract of swarm.tasks.family:

- **A reply is a function of the question and of all turns so far**: no state is kept between two calls, and every
  reader asks for all replies again, to see that they are those that the conversation has.
- **A reply is text** of 1 to LONGEST_REPLY characters, or None: the conversation is over. Whatever else it is, and
  whatever is raised, ends the conversation, too; it is scored as far as it got.
- **A conversation may be shorter than the environment would have it**, because the model's context is full or nobody
  answers any more: the score is that of what was said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

import msgspec

from swarm.tasks.answer import extract_answer, is_unicode
from swarm.tasks.family import Behaviour
from swarm.types import LONGEST_REPLY, MOST_TURNS, Completion, Dialogue, Question, Turn

LONGEST_TEXT = 16_000
"""Characters of a turn that a task gets which reads whole texts."""
Reads = Literal["answer", "text"]
Said = str | None
"""Part of one turn that its task reads."""


class Conversing(msgspec.Struct, frozen=True):
    turns: int
    """Turns of the model, at most: 2 to swarm.types.MOST_TURNS; 1 for who asks no more and reads the text."""
    reads: Reads = "answer"
    """What it gets of a turn: the text between the answer tags, or all that was written."""

    @property
    def possible(self) -> bool:
        """Tells whether it is what a task may say."""
        least = 1 if self.reads == "text" else 2
        return type(self.turns) is int and least <= self.turns <= MOST_TURNS and self.reads in get_args(Reads)


class ConversingBehaviour(Behaviour, Protocol):
    """Describes a family that converses in some tasks."""

    @property
    def conversing(self) -> Mapping[str, Conversing]:
        """Returns the tasks that do."""

    def reply(self, question: Question, answers: Sequence[Said], /) -> str | None:
        """Returns the environment's words after one or more turns of the model; None: the conversation is over."""

    def score_conversation(self, question: Question, answers: Sequence[Said], /) -> float:
        """Returns the reward of a whole conversation, bounded and checked as that of an answer."""


class Conversation(msgspec.Struct, frozen=True):
    """A conversation as its task sees it."""

    answers: tuple[Said, ...]
    """One per turn of the model."""
    replies: tuple[str, ...]
    """Between them, as somebody wrote them down."""


def conversation_of(completion: Completion, reads: Reads) -> Conversation:
    """Returns the part of a completion that a task may read, turn by turn, with the replies between."""
    answers = tuple(said(text, reads) for text in completion.texts)
    return Conversation(answers, tuple(turn.reply for turn in completion.earlier))


def said(text: str, reads: Reads) -> Said:
    """Returns what a task reads of a turn; None where there is nothing that it may get."""
    if reads == "answer":
        return extract_answer(text)
    return text if len(text) <= LONGEST_TEXT and is_unicode(text) else None


def checked_reply(reply: object) -> str | None:
    """Returns the reply. Raises ValueError: it is no text of 1 to LONGEST_REPLY characters, and not None."""
    if reply is None:
        return None
    if not isinstance(reply, str):
        raise ValueError(f"a reply is text or None, got {reply!r:.80}")
    if not (0 < len(reply.strip()) <= len(reply) <= LONGEST_REPLY and is_unicode(reply)):
        raise ValueError(f"a reply has 1 to {LONGEST_REPLY} characters of Unicode, got {len(reply)}: {reply!r:.80}")
    return reply


# ── whose turn it is ────────────────────────────────────────────────────────────────────────────────────────────────
Texts = tuple[str, ...]
"""The model's turns of one conversation."""


@dataclass
class _Talk:
    question: Question
    last: Completion
    """With the turns before it."""
    goes_on: bool
    reply: str = ""
    """To `last`, where it is the model's turn."""

    @property
    def dialogue(self) -> Dialogue:
        return Dialogue(self.question.prompt, (*self.last.earlier, self._turn))

    @property
    def _turn(self) -> Turn:
        last = self.last
        return Turn(last.text, last.finished, self.reply, last.token_ids, last.logprobs)

    def say(self, answer: Sequence[Completion]) -> None:
        """The model's next turn; none where it has no room, or is not there: then that was all."""
        if not answer:
            self.goes_on = False
            return
        self.last = msgspec.structs.replace(answer[0], earlier=(*self.last.earlier, self._turn))
        self.goes_on = len(self.last.texts) < self.question.turns


@dataclass
class Conversations:
    """Holds the completions to some questions; in tasks that converse they are first turns, which may go on.

        first turns ─▶ Conversations ─to_reply_to─▶ the environment ─hear─▶ dialogues ─▶ the model ─say─┐
                            ▲                            None: it is over               () : no answer  │
                            └───────────────────────────────────────────────────────────────────────────┘

    Pure: who has the environment and the model carries it out, turn by turn, all conversations of a round together.
    """

    questions: Sequence[Question]
    answers: Sequence[tuple[Completion, ...]]
    turn: int = 0
    """Turn of the model, counted from 0: the latest."""
    _talks: list[list[_Talk]] = field(init=False)

    def __post_init__(self) -> None:
        self._talks = [
            [_Talk(question, one, goes_on=question.turns > 1) for one in answers]
            for question, answers in zip(self.questions, self.answers, strict=True)
        ]

    def to_reply_to(self) -> dict[int, list[Texts]]:
        """Number of a question -> the conversations about it that may go on; empty: all are over."""
        texts = {
            number: [talk.last.texts for talk in talks if talk.goes_on] for number, talks in enumerate(self._talks)
        }
        return {number: found for number, found in texts.items() if found}

    def hear(self, replies: Mapping[int, Sequence[str | None]]) -> list[Dialogue]:
        """Takes the environment's replies in this order; returns the dialogues in which it is the model's turn."""
        for number, words in replies.items():
            for talk, reply in zip(self._open(number), words, strict=True):
                talk.goes_on, talk.reply = reply is not None, reply or ""
        self.turn += 1
        return [talk.dialogue for talk in self._in_order()]

    def say(self, answers: Sequence[Sequence[Completion]]) -> None:
        """Takes the model's next turns in those dialogues, one completion each or none."""
        for talk, answer in zip(self._in_order(), answers, strict=True):
            talk.say(answer)

    @property
    def groups(self) -> list[tuple[Completion, ...]]:
        """Returns the completions to each question, with all that was said before."""
        return [tuple(talk.last for talk in talks) for talks in self._talks]

    def _open(self, number: int) -> list[_Talk]:
        return [talk for talk in self._talks[number] if talk.goes_on]

    def _in_order(self) -> list[_Talk]:
        return [talk for number in range(len(self._talks)) for talk in self._open(number)]
