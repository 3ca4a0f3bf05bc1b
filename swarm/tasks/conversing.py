"""The conversations about some questions, as far as they have got: who is to be replied to, and who to be asked next.

    first turns ─▶ Conversations ─to_reply_to─▶ the environment ─hear─▶ dialogues ─▶ the model ─say─┐
                        ▲                            None: it is over               () : no answer  │
                        └───────────────────────────────────────────────────────────────────────────┘

Pure: who has the environment and the model carries it out, turn by turn, all conversations of a round together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from swarm.types import Completion, Dialogue, Question, Turn

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
        return Turn(last.text, last.finished, self.reply, last.token_ids, last.logprobs, last.forced)

    def say(self, answer: Sequence[Completion]) -> None:
        """The model's next turn; none where it has no room, or is not there: then that was all."""
        if not answer:
            self.goes_on = False
            return
        self.last = replace(answer[0], earlier=(*self.last.earlier, self._turn))
        self.goes_on = len(self.last.texts) < self.question.turns


@dataclass
class Conversations:
    """Holds the completions to some questions; in tasks that converse they are first turns, which may go on."""

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
