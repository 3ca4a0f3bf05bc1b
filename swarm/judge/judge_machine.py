"""The judge's decisions, pure: looks at the folder in, what to do out. The loop in judge.py carries them out.

    unknown ─Ask─▶ asked ─answer seen, ScoreAnswer─▶ scoring ─┬─ Recorded ──────▶ recorded
                     │                                        └─ AnswerRefused ─▶ refused, no row
                     ├─ two rounds later: Overdue, once; an answer still counts
                     └─ FORGOTTEN_AFTER rounds later: no longer looked for

    unblocks    nobody: no node ever waits for the judge
    finishes    when the experiment is over and no live worker owes an answer

Questions for the next round are asked while a round is open, so that they lie there when a node comes to them.

SteadyClock decides what a judge takes for the round clock. Pure.

    a few rounds further than before ─▶ taken at once
    a jump, an end, or a step back   ─▶ taken once it has stayed for `settle` seconds
    what no coordinator can write    ─▶ not taken

One write of the state file is a moment's work of any stranger, and would blind a judge or end it; a coordinator that
lives writes over what it has not written. Who writes it again and again, without signatures, can still lead it astray.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm.records.finished import can_be_written
from swarm.wire.messages import StateFile

OVERDUE_AFTER = 2
"""Rounds after which an answer is counted as missing."""
FORGOTTEN_AFTER = 50
"""Rounds after which nobody looks for an answer any longer."""


class Slot(NamedTuple):
    """One question's place: there is one per round and node."""

    round: int
    node: str


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────
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


@dataclass(frozen=True)
class QuestionWritten:
    """The question lies in the folder."""

    slot: Slot


@dataclass(frozen=True)
class AnswerRefused:
    """The answer is not what it should be; it gets no row."""

    slot: Slot


@dataclass(frozen=True)
class Recorded:
    """The answer was read and scored, and its row is on disk."""

    slot: Slot


@dataclass(frozen=True)
class Failed:
    """The folder did not let the instruction be carried out; it comes again with a later look."""

    slot: Slot


Event = JudgeLook | QuestionWritten | AnswerRefused | Recorded | Failed


# ── instructions ────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Ask:
    slot: Slot


@dataclass(frozen=True)
class ScoreAnswer:
    slot: Slot


@dataclass(frozen=True)
class Overdue:
    """Count the answer as missing, so far."""

    slot: Slot


@dataclass(frozen=True)
class FinishRound:
    """Everything is asked, answered and recorded."""


Instruction = Ask | ScoreAnswer | Overdue | FinishRound


class JudgeMachine:
    """Owns who was asked what and what became of it; owns no file, task or time."""

    def __init__(self, asked: Iterable[Slot] = (), recorded: Iterable[Slot] = ()) -> None:
        """Takes up what an earlier judge of this experiment left: the questions in the folder, and the rows in its
        file."""
        self._closed = set(recorded)
        """Recorded or refused."""
        self._waiting = set(asked) - self._closed
        self._asking: set[Slot] = set()
        self._busy: set[Slot] = set()
        """Being scored or recorded."""
        self._overdue: set[Slot] = set()
        self._last: JudgeLook | None = None
        self.finished = False

    @property
    def awaited_rounds(self) -> list[int]:
        """Returns rounds of which some answer is still looked for."""
        return sorted({slot.round for slot in self._waiting})

    def handle(self, event: Event) -> Sequence[Instruction]:
        """Take one event; the instructions may be carried out in any order and at the same time."""
        if self.finished:
            return ()
        match event:
            case JudgeLook():
                return [*self._on_look(event), *self._finish_if_done()]
            case QuestionWritten(slot) if slot in self._asking:
                self._asking.discard(slot)
                self._waiting.add(slot)
            case Recorded(slot) | AnswerRefused(slot) if slot in self._busy:
                self._busy.discard(slot)
                self._closed.add(slot)
            case Failed(slot):
                self._on_failed(slot)
        return self._finish_if_done()

    def _on_failed(self, slot: Slot) -> None:
        """Back to where it was: not asked, or not scored."""
        self._asking.discard(slot)
        if slot in self._busy:
            self._busy.discard(slot)
            self._waiting.add(slot)

    def _on_look(self, look: JudgeLook) -> list[Instruction]:
        self._last = look
        self._forget_before(look.round - FORGOTTEN_AFTER)
        return [*self._scores(look), *self._asks(look), *self._count_overdue(look)]

    def _scores(self, look: JudgeLook) -> list[Instruction]:
        there = self._waiting & look.answers
        self._waiting -= there
        self._busy |= there
        return [ScoreAnswer(slot) for slot in sorted(there)]

    def _asks(self, look: JudgeLook) -> list[Instruction]:
        if look.finished:
            return []
        last = look.max_rounds - 1 if look.max_rounds else look.round + 1
        rounds = range(max(0, look.round), min(look.round + 1, last) + 1)
        known = self._asking | self._waiting | self._busy | self._closed
        new = [Slot(round_, node) for round_ in rounds for node in sorted(look.live)]
        new = [slot for slot in new if slot not in known]
        self._asking |= set(new)
        return [Ask(slot) for slot in new]

    def _count_overdue(self, look: JudgeLook) -> list[Instruction]:
        late = {slot for slot in self._waiting if slot.round + OVERDUE_AFTER <= look.round} - self._overdue
        self._overdue |= late
        return [Overdue(slot) for slot in sorted(late)]

    def _forget_before(self, oldest: int) -> None:
        """A judge runs for weeks. What is forgotten and asked again after the clock went back has the same answer."""
        self._waiting = {slot for slot in self._waiting if slot.round >= oldest}
        self._overdue = {slot for slot in self._overdue if slot.round >= oldest}
        self._closed = {slot for slot in self._closed if slot.round >= oldest}

    def _finish_if_done(self) -> Sequence[Instruction]:
        look = self._last
        if look is None or not look.finished or self._asking or self._busy:
            return ()
        if any(slot.node in look.live for slot in self._waiting):
            return ()
        self.finished = True
        return (FinishRound(),)


NEAR = 3
"""Rounds that a clock may have gone on between two looks."""


class _Doubted(NamedTuple):
    state: StateFile
    since: float


class SteadyClock:
    """Decides for one judge which state it takes for the clock."""

    def __init__(self, settle: float) -> None:
        """`settle`: seconds."""
        self._settle = settle
        self._taken: StateFile | None = None
        self._doubted: _Doubted | None = None

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
        if doubted is None or state.round < doubted.state.round or state.finished != doubted.state.finished:
            self._doubted = doubted = _Doubted(state, now)
        return now - doubted.since >= self._settle
