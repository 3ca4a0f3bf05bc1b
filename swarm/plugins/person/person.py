"""A person as a generator: asks one question after the other, each for its answers. Implements swarm.types.Generator.

Generation ─Send─▶ question shown ─lines typed─▶ an answer, or `skip` ─▶ Reply | Failure ─▶ Generation
                         └─ the round is over, or the person leaves: what was answered is not published
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import anyio

from swarm.harmless import printable_lines
from swarm.plugins.person.terminal import Terminal
from swarm.records.liveness import PERSON
from swarm.remote.generation import Generation, RemoteWriter, Request, Terms, carry_out
from swarm.remote.limits import ServerLimits
from swarm.remote.outcomes import Failure, Reply, Tokens
from swarm.tasks.answer import ANSWER_LIMIT, CLOSE_TAG, OPEN_TAG, has_answer
from swarm.types import Completion, GenerationCall, Groups

LOOK_EVERY = 0.25
"""Seconds between looks at whether the round is over."""
SKIP, QUIT, FENCE = "skip", "quit", '"""'
HOW = (
    f"Enter ends an answer; {FENCE} on a line of its own begins one of several lines, and ends it. "
    f"`{SKIP}` leaves a question out, `{QUIT}` or Ctrl-D leaves the swarm.\n"
    "Peers learn from the difference between your answers: give your best one, and others that you hold for worse."
)
"""Said once."""
TERMS = Terms(concurrency=1, patience=math.inf)
_SKIPPED = Failure("declined", "left out")


class NodeStanding(Protocol):
    """Says where a node stands."""

    @property
    def round(self) -> int | None:
        """Returns the round that the node works on."""

    @property
    def left_behind(self) -> bool:
        """Tells whether that round is over."""


class _Round:
    """The questions of one round, and what was answered so far."""

    def __init__(self, number: int | None, questions: Sequence[str], answers: int) -> None:
        self.which = "this round" if number is None else f"round {number}"
        self.questions, self.answers = questions, answers
        self.given: list[str] = []
        """To the question that is open."""
        self.block: list[str] | None = None
        """Lines of an answer of several."""
        self.done = 0
        """Answers to questions before it."""
        self.type, self.typed = anyio.create_memory_object_stream[str](math.inf)
        self.scope = anyio.CancelScope()

    def lost(self, what: str) -> str:
        """Says that what was answered is lost; nothing where nothing was."""
        lost = len(self.given) + self.done + (self.block is not None)
        return f"what you answered ({lost}) {what}" if lost else ""


class Person(RemoteWriter):
    """Answers for a node, whose event loop it lives in; `attend` runs beside that node."""

    name = PERSON

    def __init__(self, terminal: Terminal, longest: int) -> None:
        """`longest`: characters of an answer that peers take, tags included."""
        self._show, self._terminal, self._longest = terminal.show, terminal, longest
        self._standing: NodeStanding | None = None
        self._round: _Round | None = None
        self.gone = anyio.Event()
        """Set when the person has left."""

    async def attend(self, standing: NodeStanding) -> None:
        """Carry lines to the question that is open, and end the rounds that are over, until cancelled."""
        self._standing = standing
        self._show(HOW)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read)
            while True:
                await anyio.sleep(LOOK_EVERY)
                if self._round and standing.left_behind:
                    self._terminal.forget()
                    lost = self._round.lost("came too late, and is not published")
                    self._end(f"{self._round.which} is over: {lost or 'it went on without you'}")

    async def _read(self) -> None:
        async for line in self._terminal.lines():
            if self._round:
                self._round.type.send_nowait(line)
            elif line.strip() == QUIT:
                self.leave()
            elif line.strip():
                self._show("no question is open now: this went nowhere")
        self.leave()

    def leave(self) -> None:
        """Ask nothing more, and let a generation that waits end."""
        if not self.gone.is_set():
            lost = self._round.lost("is not published") if self._round else ""
            self._end(f"leaving: {lost}" if lost else "leaving")
            self.gone.set()

    def _end(self, said: str) -> None:
        self._show(said)
        if self._round:
            self._round.scope.cancel()
            self._round = None

    def tell(self, text: str) -> None:
        """Show a line of news."""
        self._show(text)

    # ── a round ─────────────────────────────────────────────────────────────────────────────────────────────────────
    async def write(self, call: GenerationCall) -> Groups:
        """Returns what the person answers: to a question group_size answers or none.

        A judge's question, for one answer, is not asked; nor is a conversation's next turn.
        """
        questions = [prompt for prompt in call.prompts if isinstance(prompt, str)]
        groups: Groups = [()] * len(call.prompts)
        if self.gone.is_set() or call.group_size < 2 or not questions or len(questions) < len(call.prompts):
            return groups
        asked = self._round = _Round(self._standing.round if self._standing else None, questions, call.group_size)
        costs = [Tokens(0, 0)] * len(questions)
        generation = Generation(TERMS, ServerLimits(), costs, call.group_size, call.seed, began=time.monotonic())
        try:
            with asked.scope, asked.type, asked.typed:
                await carry_out(generation, partial(self._ask, asked), time.monotonic)
                groups = generation.end(time.monotonic())
                told = f"{sum(map(bool, groups))} of {len(groups)} questions answered; waiting for the next round"
                self._show(f"{asked.which}: {told}")
        finally:
            self._round = None
        return groups

    async def _ask(self, asked: _Round, request: Request) -> Reply | Failure:
        if not request.number:
            self._show(f"── {asked.which}, question {request.question + 1} of {len(asked.questions)}")
            self._show(printable_lines(asked.questions[request.question]))
        text = await self._answer(asked)
        if text is None:
            self._show(_SKIPPED.detail)
            asked.given = []
            return _SKIPPED
        asked.given.append(text)
        if len(asked.given) == asked.answers:
            if len(set(asked.given)) == 1:
                self._show("all answers are the same: nobody can learn from them")
            asked.given, asked.done = [], asked.done + asked.answers
        return Reply(Completion(text, finished=True))

    async def _answer(self, asked: _Round) -> str | None:
        """Returns the next answer, with its tags; None: the question is left out."""
        while True:
            self._show(f"answer {len(asked.given) + 1} of {asked.answers}:")
            if (text := await self._text(asked)) is None:
                return None
            completion = text if has_answer(text) else f"{OPEN_TAG}{text}{CLOSE_TAG}"
            if not text.strip():
                self._show("nothing in it: once more")
            elif len(completion) > self._longest or (completion != text and len(text) > ANSWER_LIMIT):
                most = min(ANSWER_LIMIT, self._longest - len(OPEN_TAG) - len(CLOSE_TAG))
                self._show(f"too long: {most} characters at most between {OPEN_TAG} and {CLOSE_TAG}; once more")
            else:
                return completion

    async def _text(self, asked: _Round) -> str | None:
        """Returns what is typed as one answer, which may be too long; None for the word that leaves a question out."""
        asked.block = None
        while True:
            line = await asked.typed.receive()
            word = line.strip()
            if word == FENCE and asked.block is None:
                asked.block = []
            elif asked.block is not None:
                asked.block += [line] if word != FENCE else []
                if word == FENCE or sum(map(len, asked.block)) > self._longest:
                    text, asked.block = "\n".join(asked.block).strip("\n"), None
                    return text
            elif word == QUIT:
                self.leave()
            elif word:
                return word if word != SKIP else None
