"""A person as a generator. Implements swarm.types.Generator; the compute thread blocks, never the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

import anyio

from swarm.plugins.person.session import HOW, Event, RoundOpened, RoundOver, Session, TypedLine, TypingOver
from swarm.plugins.person.terminal import Terminal
from swarm.records.liveness import PERSON
from swarm.types import Bill, Completion, Dialogue, Ready

LOOK_EVERY = 0.25
"""Seconds between looks at whether the round is over."""


class NodeStanding(Protocol):
    """Says where a node stands."""

    @property
    def round(self) -> int | None:
        """Returns the round that the node works on."""

    @property
    def left_behind(self) -> bool:
        """Tells whether that round is over."""


class Person:
    """Made in the event loop, before the node that it answers for; `attend` runs beside that node."""

    def __init__(self, terminal: Terminal, longest: int) -> None:
        """`longest`: characters of an answer."""
        self.name, self.tokenizer, self.repeats = PERSON, "", False
        self.bill: Bill | None = None
        self._terminal = terminal
        self._session = Session(longest)
        self._loop = asyncio.get_running_loop()
        self._standing: NodeStanding | None = None
        self._waiting: Future[list[tuple[str, ...]]] | None = None
        self.gone = anyio.Event()
        """Set when the person has left."""

    # ── in the compute thread ───────────────────────────────────────────────────────────────────────────────────────
    def has_room(self, _prompt: str) -> bool:
        """A person reads any."""
        return True

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        """Returns what the person answers: to a question group_size answers or none.

        A judge's question, for one answer, is not asked; nor is a conversation's next turn.
        """
        questions = [prompt for prompt in prompts if isinstance(prompt, str)]
        if group_size < 2 or len(questions) < len(prompts):
            return [()] * len(prompts)
        waiting: Future[list[tuple[str, ...]]] = Future()
        self._loop.call_soon_threadsafe(self._open, tuple(questions), group_size, waiting)
        return [tuple(Completion(text, finished=True) for text in group) for group in waiting.result()]

    # ── in the event loop ───────────────────────────────────────────────────────────────────────────────────────────
    async def attend(self, standing: NodeStanding) -> None:
        """Carry lines and rounds to the session until cancelled."""
        self._standing = standing
        self._terminal.show(HOW)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read)
            while True:
                await anyio.sleep(LOOK_EVERY)
                if self._session.open and standing.left_behind:
                    self._terminal.forget()
                    self._handle(RoundOver())

    def leave(self) -> None:
        """Ask nothing more, and let a generation that waits end."""
        if not self._session.left:
            self._handle(TypingOver())

    def tell(self, text: str) -> None:
        """Show a line of news."""
        self._terminal.show(text)

    async def _read(self) -> None:
        async for line in self._terminal.lines():
            self._handle(TypedLine(line))
        self.leave()

    def _open(self, questions: tuple[str, ...], answers: int, waiting: Future[list[tuple[str, ...]]]) -> None:
        self._waiting = waiting
        self._handle(RoundOpened(self._standing.round if self._standing else None, questions, answers))

    def _handle(self, event: Event) -> None:
        for line in self._session.handle(event):
            self._terminal.show(line)
        if self._waiting and not self._session.open:
            self._waiting.set_result(self._session.groups)
            self._waiting = None
        if self._session.left:
            self.gone.set()
