"""A WorkerMachine under watch: every instruction is held against what a worker may do at all."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any, Literal

from swarm.config import Settings
from swarm.node.base.attendance import MOST_ABSENCES
from swarm.node.sharing.examination import FileNews
from swarm.node.worker import events as m
from swarm.node.worker.worker_machine import GATHER_SHARE, LATE_GRACE, GatherPace, WorkerMachine
from swarm.types import RoundKey, stage_after

BEFORE = {
    m.Phase.SCORING: m.Phase.GENERATING,
    m.Phase.PUBLISHING: m.Phase.SCORING,
    m.Phase.SUBMITTING: m.Phase.TRAINING,
}
"""Which step each of the simple ones follows."""
ROUNDING = 1e-6
"""Seconds: a deadline is a sum, what is held against it here a difference."""
SAVE = "save"


def task_of(message: object) -> tuple[m.Phase | str, RoundKey] | None:
    """What an instruction asks for, or an event ends: a step of a round, or a SAVE, of which an event is the answer."""
    match message:
        case m.Generate(key):
            return m.Phase.GENERATING, key
        case m.Step(phase, key) | m.StepDone(phase, key):
            return phase, key
        case m.Draw(key) | m.Drawn(key):
            return m.Phase.GATHERING, key
        case m.Train(key):
            return m.Phase.TRAINING, key
        case m.Save(done) | m.Saved(done) | m.SaveFailed(done):
            return SAVE, done
    return None


def is_step(message: object) -> bool:
    """It is about a step of a round."""
    return (task := task_of(message)) is not None and task[0] != SAVE


class CheckedWorker:
    """Hands events on and asserts the invariants of everything that comes back."""

    def __init__(self, settings: Settings) -> None:
        self.machine = WorkerMachine(settings)
        self.draws_at_once = True
        """Draw is answered as it comes, as if all that is drawn were verified already."""
        self.draws: list[m.Draw] = []
        self.ahead: list[RoundKey] = []
        self.begun: list[RoundKey] = []
        self.trained: list[RoundKey] = []
        self.saves: list[RoundKey] = []
        """What was given: of all draws, and of which rounds GenerateAhead, BeginUpdate, Train and Save."""
        self.pending: list[m.Instruction] = []
        """Instructions that were not answered yet."""
        self.finish: m.Finish | None = None
        self.next: RoundKey | None = None
        """The first stage that is not done."""
        self._settings = settings
        self._own_clock = settings.clock == "own"
        self._max_rounds = settings.max_rounds
        self._longest_gather = settings.round_interval * GATHER_SHARE
        self._clock: RoundKey | None = None
        self._finished = self._stopping = self._somebody_published = False
        self._step: m.Instruction | None = None
        self._arrived: dict[str, set[RoundKey]] = defaultdict(set)
        self._live: frozenset[str] = frozenset()
        self._first: RoundKey | None = None
        self._now = -math.inf
        self._coordinator_gone: float | None = None
        """Since the first of the looks at a clock that had run, and that nobody kept."""
        self._looked_at = -math.inf
        self._gather_since = 0.0
        self._late_since = math.inf
        self._waits: list[float] = []
        self._absences: Counter[str] = Counter()
        self._earned: set[str] = set()
        self._newcomers_cost = 0
        """Rounds, and seconds, that ended without a newcomer or were waited for one: the most that it can be."""
        self._newcomers_took = 0.0
        self._newcomers: set[str] = set()
        """Those that were alive at some moment since this gathering began."""

    @property
    def rounds_saved(self) -> list[int]:
        """Behind each checkpoint."""
        return [key.round for key in self.saves]

    @property
    def done(self) -> bool:
        return self.machine.phase is m.Phase.DONE

    def handle(self, event: m.Event) -> list[m.Instruction]:
        answered = self._take_note(event)
        instructions = list(self.machine.handle(event))
        wake_at = self.machine.wake_at
        woken = isinstance(event, m.Tick)
        assert not woken or wake_at is None or wake_at > self._now, "it would be woken at once, again and again"
        if task_of(event) and answered is None:
            assert not instructions, "an answer to nothing does nothing"
        for instruction in instructions:
            self._check(instruction, answered)
            if not isinstance(instruction, m.BeginUpdate | m.GenerateAhead):
                self.pending.append(instruction)
        if self.draws_at_once and instructions and isinstance(instructions[-1], m.Draw):
            return [*instructions[:-1], *self.answer(instructions[-1], self._now)]
        return instructions

    def answer(self, instruction: m.Instruction, now: float) -> list[m.Instruction]:
        """The event with which the loop ends an instruction."""
        match instruction:
            case m.Draw(key):
                return self.handle(m.Drawn(key, True, now))
            case m.Save(done):
                return self.handle(m.Saved(done))
            case m.Generate(key):
                return self.handle(m.StepDone(m.Phase.GENERATING, key))
            case m.Train(key):
                return self.handle(m.StepDone(m.Phase.TRAINING, key))
            case m.Step(phase, key):
                return self.handle(m.StepDone(phase, key, now if phase is m.Phase.PUBLISHING else -math.inf))
        return []

    def _take_note(self, event: m.Event) -> m.Instruction | None:
        """What the world knows after this event; the instruction that it answers, if any."""
        self._now = max(self._now, getattr(event, "now", self._now))
        match event:
            case m.Ready(following):
                self.next = self._first = following
            case m.ClockSeen():
                self._note_clock(event)
            case m.CoordinatorSeen(alive, looked_at):
                self._note_coordinator(alive, looked_at)
            case m.PeersLive(nodes, _, publishing):
                self._live = nodes
                self._newcomers |= nodes - self._earned
                self._somebody_published |= bool(publishing)
            case m.PeersNews(FileNews.VALID, _, peers):
                self._earned |= peers
            case m.PeersNews(FileNews.THERE, key, peers):
                for peer in peers:
                    self._arrived[peer].add(key)
            case m.PeersNews(FileNews.NOT_THEIRS, key, peers):
                for peer in peers:
                    self._arrived[peer].discard(key)
            case m.Stop():
                self._stopping = True
        answered = self._answered_by(event)
        if isinstance(answered, m.Step) and answered.phase is m.Phase.PUBLISHING:
            self._gather_since = self._now
            self._newcomers = set(self._live - self._earned)
            self._late_since = self._now if self._is_late(answered.key) else math.inf
        return answered

    def _note_coordinator(self, alive: bool, looked_at: float) -> None:
        self._looked_at = max(self._looked_at, looked_at)
        if alive:
            self._coordinator_gone = None
        elif self._coordinator_gone is None and (
            self._clock or (self.next and self.next > RoundKey(0)) or self._somebody_published
        ):
            self._coordinator_gone = self._now

    def _note_clock(self, clock: m.ClockSeen) -> None:
        if self._own_clock or (self._clock is not None and clock.key < self._clock and not clock.back):
            return
        self._clock, self._finished = clock.key, clock.finished
        self._max_rounds = clock.max_rounds or self._max_rounds
        if clock.interval:
            self._longest_gather = clock.interval * GATHER_SHARE
        if isinstance(self._step, m.Step | m.Draw) and self._waits_for_peers() and self._is_late(self._step.key):
            self._late_since = min(self._late_since, self._now)

    def _in_hand(self) -> tuple[m.Phase | str, RoundKey | None]:
        """The step that was asked for last, and its round."""
        return task_of(self._step) or ("", None)

    def _waits_for_peers(self) -> bool:
        """The own groups are published, or about to be, and nothing is trained on yet."""
        return self._in_hand()[0] in (m.Phase.PUBLISHING, m.Phase.GATHERING)

    def _is_late(self, key: RoundKey) -> bool:
        return self._finished or (self._clock is not None and self._clock > key)

    def _answered_by(self, event: m.Event) -> m.Instruction | None:
        asked = [one for one in self.pending if task_of(event) and task_of(one) == task_of(event)]
        if not asked:
            return None
        self.pending.remove(asked[0])
        if isinstance(event, m.StepDone) and event.phase is m.Phase.SUBMITTING:
            self.next = stage_after(event.key, self._settings.max_stages)
        if isinstance(event, m.SaveFailed):
            self.saves.remove(event.done)
        return asked[0]

    def _check(self, instruction: m.Instruction, answered: m.Instruction | None) -> None:
        assert self.finish is None, "nothing comes after Finish"
        if is_step(instruction):
            assert not any(map(is_step, self.pending)), "one step at a time"
        match instruction:
            case m.Generate(key, skipped):
                self._check_generate(key, skipped)
            case m.Step(phase, key):
                assert task_of(answered) == (BEFORE[phase], key)
            case m.BeginUpdate(key):
                self._check_begin(key)
            case m.GenerateAhead(key):
                self._check_ahead(key)
            case m.Draw():
                self._check_draw(instruction)
            case m.Train():
                self._check_train(instruction)
            case m.Save(done):
                assert done == self.next
                assert done not in self.saves, "no checkpoint is written twice"
                leaves, redone = self._stopping or self._finished, done == self._first
                assert not done.stage or leaves or redone, "on the way rounds are saved whole"
                self.saves.append(done)
            case m.Finish(reason):
                self._check_finish(reason)
                self.finish = instruction
        if is_step(instruction):
            self._step = instruction

    def _check_generate(self, key: RoundKey, skipped: int) -> None:
        assert self.next is not None, "nothing begins before the policy is there"
        assert not self._stopping
        assert not self._finished
        assert key >= self.next, "no stage is done twice"
        assert skipped == key.round - self.next.round
        if self._own_clock:
            assert key == self.next, "on its own clock a node does one round after the other"
        elif key != self._clock or self.machine.on_own_clock:
            assert self._coordinator_gone is not None, "a round begins where the clock is"
            waited = self._looked_at - self._coordinator_gone
            assert waited >= self._settings.patience_with_coordinator - ROUNDING, (
                "a coordinator is waited for with patience, and looked for once more when that ends"
            )
            assert key == max(self._clock or key, self.next), "alone, too, no round is left out"

    def _check_draw(self, draw: m.Draw) -> None:
        assert self._waits_for_peers(), "external groups are drawn when the own ones are published"
        assert self._in_hand()[1] == draw.key
        assert dict(draw.sources) == self._sources_of(draw.key), "the newest of each peer, however they came"
        assert list(draw.sources) == sorted(draw.sources)
        assert draw.until > self._now
        assert self._settings.most_external_groups
        self.draws.append(draw)

    def _check_train(self, train: m.Train) -> None:
        shares = self._settings.most_external_groups
        before = m.Phase.GATHERING if shares else m.Phase.PUBLISHING
        assert self._in_hand() == (before, train.key), "training comes after publishing, and drawing"
        assert train.key not in self.trained
        assert self.begun[-1] == train.key, "the gradients that are there are those of this round"
        drawn = dict(self._step.sources) if isinstance(self._step, m.Draw) else {}
        assert train.heard == {peer for peer, key in drawn.items() if key in self._arrived[peer]}
        assert train.awaited <= self._live
        self.trained.append(train.key)
        if shares and not self._stopping:
            self._check_patience(train)

    def _sources_of(self, mine: RoundKey) -> dict[str, RoundKey]:
        if not self._settings.most_external_groups:
            return {}
        reach = self._settings.staleness_window if self.machine.on_own_clock else 0
        within = {
            peer: [key for key in keys if key == mine or 0 < reach >= abs(key.round - mine.round)]
            for peer, keys in self._arrived.items()
        }
        return {peer: max(keys) for peer, keys in within.items() if keys}

    def _check_patience(self, train: m.Train) -> None:
        """No fixed sleep is a barrier: live peers are waited for as long as the swarm has needed lately."""
        waited = self._now - self._gather_since
        missing = {peer for peer in self._live - train.heard if self._absences[peer] < MOST_ABSENCES}
        newcomers = self._newcomers
        graceful = self._newcomers_took + (waited if newcomers else 0.0) < MOST_ABSENCES * self._longest_gather
        if not graceful or self._newcomers_cost >= MOST_ABSENCES:
            missing &= self._earned
        if missing and self._now - self._late_since < LATE_GRACE - ROUNDING:
            usual = GatherPace.FACTOR * max(self._waits[-GatherPace.WINDOW :], default=math.inf) + GatherPace.SLACK
            assert waited >= min(self._longest_gather, usual) - ROUNDING, f"it did not wait for {sorted(missing)}"
        self._waits.append(waited)
        self._newcomers_cost += bool(newcomers - train.heard)
        self._newcomers_took += waited if newcomers else 0.0
        self._absences = Counter({peer: self._absences[peer] + 1 for peer in self._live - train.heard})

    def _check_begin(self, key: RoundKey) -> None:
        phase, mine = self._in_hand()
        update_before_is_made = phase is m.Phase.SUBMITTING and mine is not None and mine.round == key.round - 1
        assert (phase, mine) == (m.Phase.PUBLISHING, key) or (update_before_is_made and key in self.ahead)
        assert key not in self.begun, "no gradient is added up twice"
        self.begun.append(key)

    def _check_ahead(self, key: RoundKey) -> None:
        phase, mine = self._in_hand()
        assert self._settings.staleness == 1
        assert not self._stopping
        assert not self._finished
        assert not self._max_rounds or key.round < self._max_rounds, "nothing is generated for a round that never comes"
        assert key not in self.ahead
        assert self._clock is None or key >= self._clock, "a round that is over is not worth generating for"
        ahead_of_updates = {m.Phase.SCORING: 1, m.Phase.SUBMITTING: 2}[m.Phase(phase)]
        assert mine is not None
        assert key.round == mine.round + ahead_of_updates, "at most one update lies in between"
        self.ahead.append(key)

    def _check_finish(self, reason: str) -> None:
        assert not self.pending, "nothing is cut off"
        all_done = 0 < self._max_rounds <= (self.next.round if self.next else 0)
        unmoved = self.next is not None and self.next == self._first
        left = unmoved and self._clock and self._clock.round > self.next.round
        over = "missed" if left else "finished"
        assert all_done or reason == (over if self._finished else "stopped")
        if self.next != self._first:
            assert self.saves[-1] == self.next, "what was learned is saved"


def checked_worker(
    *, own_clock: bool = False, patience: float = math.inf, window: int = 0, **settings: Any
) -> CheckedWorker:
    """Unless the settings say otherwise its rounds are short and without end, and it saves at the stop alone."""
    usual = {"external_groups": 4, "round_interval": 10.0, "checkpoint_interval": 0, "max_rounds": 0} | settings
    clock: Literal["own", "coordinator"] = "own" if own_clock else "coordinator"
    return CheckedWorker(Settings(clock=clock, coordinator_patience=patience, staleness_window=window, **usual))
