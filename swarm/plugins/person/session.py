"""Leads a person through questions and answers, one round after the other. Pure: events in, lines to show out.

nothing asked ──RoundOpened─▶ a question ──TypedLine─▶ ... G answers ─▶ the next ... ─▶ nothing asked, `groups` complete
      ▲                            └─ RoundOver, TypingOver: what was answered is not published ──┘
      └───────────────────────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swarm.harmless import printable_lines
from swarm.tasks.answer import ANSWER_LIMIT, CLOSE_TAG, OPEN_TAG, has_answer

SKIP, QUIT, FENCE = "skip", "quit", '"""'
HOW = (
    f"Enter ends an answer; {FENCE} on a line of its own begins one of several lines, and ends it. "
    f"`{SKIP}` leaves a question out, `{QUIT}` or Ctrl-D leaves the swarm.\n"
    "Peers learn from the difference between your answers: give your best one, and others that you hold for worse."
)
"""Said once."""


class RoundOpened(NamedTuple):
    """A round begins for this node."""

    round: int | None
    """None: it is not known."""
    questions: tuple[str, ...]
    answers: int
    """G: to each question."""


class TypedLine(NamedTuple):
    """Tells that somebody typed a line; it has no newline."""

    text: str


class RoundOver(NamedTuple):
    """The others have gone on to a later round."""


class TypingOver(NamedTuple):
    """Tells that nothing more will be typed, or read."""


Event = RoundOpened | TypedLine | RoundOver | TypingOver


class Session:
    """Leads one person through the questions of a node's rounds."""

    def __init__(self, longest: int) -> None:
        """`longest`: characters of an answer that peers take, tags included."""
        self._longest = longest
        self._round: int | None = None
        self._questions: tuple[str, ...] = ()
        self._wanted = 0
        self._given: list[str] = []
        self._block: list[str] | None = None
        """Lines of an answer of several."""
        self.groups: list[tuple[str, ...]] = []
        """The answers to each question that is done with; none to one that was left out."""
        self.left = False

    @property
    def open(self) -> bool:
        """A question waits for its answers."""
        return len(self.groups) < len(self._questions)

    def handle(self, event: Event) -> Sequence[str]:
        """Take one event; what is to be shown."""
        match event:
            case RoundOpened(round_, questions, answers):
                self._round, self._questions, self._wanted = round_, questions, answers
                self.groups, self._given, self._block = [()] * len(questions) if self.left else [], [], None
                return self._ask() if self.open else ()
            case TypedLine(text):
                return self._on_line(text) if self.open else self._between(text)
            case RoundOver():
                lost = self._lost("came too late, and is not published")
                return self._end(f"{self._which} is over: {lost or 'it went on without you'}") if self.open else ()
            case TypingOver():
                return self._leave()

    # ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def _between(self, text: str) -> Sequence[str]:
        if text.strip() == QUIT:
            return self._leave()
        return ("no question is open now: this went nowhere",) if text.strip() else ()

    def _on_line(self, text: str) -> Sequence[str]:
        word = text.strip()
        if word == FENCE:
            return self._fence()
        if self._block is not None:
            return self._add(text)
        match word:
            case "":
                return ()
            case "skip":
                return self._next((), "left out")
            case "quit":
                return self._leave()
        return self._answer(word)

    def _fence(self) -> Sequence[str]:
        block, self._block = self._block, [] if self._block is None else None
        return () if block is None else self._answer("\n".join(block).strip("\n"))

    def _add(self, line: str) -> Sequence[str]:
        assert self._block is not None
        self._block.append(line)
        if sum(map(len, self._block)) <= self._longest:
            return ()
        self._block = None
        return self._too_long()

    def _answer(self, text: str) -> Sequence[str]:
        if not text.strip():
            return ("nothing in it: once more", self._prompt)
        completion = text if has_answer(text) else f"{OPEN_TAG}{text}{CLOSE_TAG}"
        if len(completion) > self._longest or (completion != text and len(text) > ANSWER_LIMIT):
            return self._too_long()
        self._given.append(completion)
        if len(self._given) < self._wanted:
            return (self._prompt,)
        same = len(set(self._given)) == 1
        return self._next(tuple(self._given), "all answers are the same: nobody can learn from them" if same else "")

    def _too_long(self) -> Sequence[str]:
        most = min(ANSWER_LIMIT, self._longest - len(OPEN_TAG) - len(CLOSE_TAG))
        return (f"too long: {most} characters at most between {OPEN_TAG} and {CLOSE_TAG}; once more", self._prompt)

    # ── questions ───────────────────────────────────────────────────────────────────────────────────────────────────
    def _next(self, group: tuple[str, ...], said: str) -> Sequence[str]:
        self.groups.append(group)
        self._given, self._block = [], None
        lines = (said,) if said else ()
        return (*lines, *self._ask()) if self.open else (*lines, *self._thanks())

    def _ask(self) -> Sequence[str]:
        number = f"{len(self.groups) + 1} of {len(self._questions)}"
        return (
            f"── {self._which}, question {number}",
            printable_lines(self._questions[len(self.groups)]),
            self._prompt,
        )

    def _thanks(self) -> Sequence[str]:
        answered = sum(1 for group in self.groups if group)
        return (f"{self._which}: {answered} of {len(self.groups)} questions answered; waiting for the next round",)

    def _leave(self) -> Sequence[str]:
        self.left = True
        lost = self._lost("is not published") if self.open else ""
        return self._end(f"leaving: {lost}" if lost else "leaving")

    def _end(self, said: str) -> Sequence[str]:
        if self.open:
            self.groups = [()] * len(self._questions)
        self._given, self._block = [], None
        return (said,)

    @property
    def _prompt(self) -> str:
        return f"answer {len(self._given) + 1} of {self._wanted}:"

    @property
    def _which(self) -> str:
        return "this round" if self._round is None else f"round {self._round}"

    def _lost(self, what: str) -> str:
        lost = len(self._given) + sum(map(len, self.groups)) + (self._block is not None)
        return f"what you answered ({lost}) {what}" if lost else ""
