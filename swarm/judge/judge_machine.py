"""The judge's decisions, pure: a look at the folder in, what is due out. The loop in judge.py carries it out.

    unknown ─to be asked─▶ waiting ─its answer lies there─▶ closed: recorded, or refused without a row
                              └─ FORGOTTEN_AFTER rounds later: no longer looked for

    unblocks    nobody: no node ever waits for the judge
    is over     when the experiment is, no live worker owes an answer, and none that lies there is left

What the folder did not allow changes nothing here, and so comes again with the next look. Questions for the next round
are asked while a round is open, so that they lie there when a node comes to them.

SteadyClock decides what a judge takes for the round clock. Pure.

    a few rounds further than before ─▶ taken at once
    a jump, an end, or a step back   ─▶ taken once it has stayed for `settle` seconds
    what no coordinator can write    ─▶ not taken

One write of the state file is a moment's work of any stranger, and would blind a judge or end it; a coordinator that
lives writes over what it has not written. Who writes it again and again, without signatures, can still lead it astray.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from swarm.records.finished import can_be_written
from swarm.wire.messages import StateFile

FORGOTTEN_AFTER = 50
"""Rounds after which nobody looks for an answer any longer."""


class Slot(NamedTuple):
    """One question's place: there is one per round and node."""

    round: int
    node: str


@dataclass(frozen=True)
class JudgeLook:
    """Holds what the folder showed at one moment."""

    round: int
    """The open round, -1 before the first; after the last one, the number of rounds."""
    finished: bool
    live: frozenset[str]
    """Workers that are alive and take part, seen before the answers were."""
    answers: frozenset[Slot] = frozenset()
    """Answer files that are there, of `awaited_rounds` at least."""
    max_rounds: int = 0
    """How many rounds there will be; 0: not said."""


class Due(NamedTuple):
    """Holds what a look has shown to be due."""

    ask: list[Slot]
    """Questions of the open round and the next, to each live worker."""
    score: list[Slot]
    """Answers that lie there."""


class JudgeMachine:
    """Owns who was asked what and what became of it; owns no file, task or time."""

    def __init__(self, asked: Iterable[Slot] = (), recorded: Iterable[Slot] = ()) -> None:
        """Takes up what an earlier judge of this experiment left: the questions in the folder, and the rows in its
        file."""
        self._closed = set(recorded)
        """Recorded or refused."""
        self._waiting = set(asked) - self._closed

    @property
    def awaited_rounds(self) -> list[int]:
        """Returns rounds of which some answer is still looked for."""
        return sorted({slot.round for slot in self._waiting})

    def asked(self, slot: Slot) -> None:
        """Notes that the question lies in the folder."""
        self._waiting.add(slot)

    def closed(self, slot: Slot) -> None:
        """Notes that the answer has its row on disk, or is refused and gets none."""
        self._waiting.discard(slot)
        self._closed.add(slot)

    def look(self, look: JudgeLook) -> Due:
        """Returns what is to be done after a look, in any order and at the same time.

        A judge runs for weeks, and forgets. What it asks again after the clock went back has the same answer.
        """
        oldest = look.round - FORGOTTEN_AFTER
        self._waiting = {slot for slot in self._waiting if slot.round >= oldest}
        self._closed = {slot for slot in self._closed if slot.round >= oldest}
        return Due(self._to_ask(look), sorted(self._waiting & look.answers))

    def _to_ask(self, look: JudgeLook) -> list[Slot]:
        if look.finished:
            return []
        last = look.max_rounds - 1 if look.max_rounds else look.round + 1
        rounds = range(max(0, look.round), min(look.round + 1, last) + 1)
        slots = [Slot(round_, node) for round_ in rounds for node in sorted(look.live)]
        return [slot for slot in slots if slot not in self._waiting and slot not in self._closed]

    def is_over(self, look: JudgeLook) -> bool:
        """Tells whether nothing is left to do, once a look was carried out."""
        owed = any(slot.node in look.live or slot in look.answers for slot in self._waiting)
        return look.finished and not owed


NEAR = 3
"""Rounds that a clock may have gone on between two looks."""


class SteadyClock:
    """Decides for one judge which state it takes for the clock."""

    def __init__(self, settle: float) -> None:
        """`settle`: seconds."""
        self._settle = settle
        self._taken: StateFile | None = None
        self._doubted: StateFile | None = None
        self._doubted_since = 0.0

    def observe(self, state: StateFile | None, now: float) -> StateFile | None:
        """Take note of what the file says by now; what is taken for the clock. None: there is none."""
        if state is not None and can_be_written(state) and (self._follows(state) or self._stays(state, now)):
            self._taken, self._doubted = state, None
        return self._taken

    def _follows(self, state: StateFile) -> bool:
        if self._taken is None:
            return not state.finished
        return 0 <= state.round - self._taken.round <= NEAR and state.finished == self._taken.finished

    def _stays(self, state: StateFile, now: float) -> bool:
        doubted = self._doubted
        if doubted is None or state.round < doubted.round or state.finished != doubted.finished:
            self._doubted, self._doubted_since = state, now
        return now - self._doubted_since >= self._settle
