"""A WorkerMachine under watch: every instruction is held against what a worker may do at all."""

from __future__ import annotations

from swarm.node import worker_machine as m
from swarm.types import RoundKey

STEPS = (m.Generate, m.Score, m.Publish, m.Train, m.Submit)
ANSWERS: dict[type, type] = {
    m.Generated: m.Generate,
    m.Scored: m.Score,
    m.Published: m.Publish,
    m.Trained: m.Train,
    m.Submitted: m.Submit,
    m.Saved: m.Save,
}
"""Which instruction each of the loop's events answers."""
UNANSWERED = (m.BeginUpdate, m.GenerateAhead)


class CheckedWorker:
    """Hands events on and asserts the invariants of everything that comes back."""

    def __init__(
        self,
        *,
        external_groups: int = 4,
        round_interval: float = 10.0,
        checkpoint_interval: int = 0,
        staleness: int = 0,
    ) -> None:
        self.machine = m.WorkerMachine(
            external_groups=external_groups,
            round_interval=round_interval,
            checkpoint_interval=checkpoint_interval,
            staleness=staleness,
        )
        self.ahead: list[RoundKey] = []
        """Rounds for which GenerateAhead was given."""
        self.begun: list[RoundKey] = []
        """Rounds for which BeginUpdate was given."""
        self._staleness = staleness
        self._max_rounds = 0
        self.pending: list[m.Instruction] = []
        """Instructions that were not answered yet."""
        self.trained: list[RoundKey] = []
        self.saves: list[int] = []
        self.finish: m.Finish | None = None
        self.rounds_done: int | None = None
        self._clock: RoundKey | None = None
        self._finished = False
        self._stopping = False
        self._step: m.Instruction | None = None
        self._arrived: set[tuple[RoundKey, str]] = set()
        self._live: frozenset[str] = frozenset()
        self._first_round = 0

    @property
    def done(self) -> bool:
        return self.machine.phase is m.Phase.DONE

    def handle(self, event: m.Event) -> list[m.Instruction]:
        answered = self._take_note(event)
        instructions = list(self.machine.handle(event))
        if type(event) in ANSWERS and answered is None:
            assert not instructions, "an answer to nothing does nothing"
        for instruction in instructions:
            self._check(instruction, answered)
            if not isinstance(instruction, UNANSWERED):
                self.pending.append(instruction)
        return instructions

    def answer(self, instruction: m.Instruction, now: float) -> list[m.Instruction]:
        """The event with which the loop ends an instruction."""
        match instruction:
            case m.Generate(key):
                return self.handle(m.Generated(key))
            case m.Score(key):
                return self.handle(m.Scored(key))
            case m.Publish(key):
                return self.handle(m.Published(key, now))
            case m.Train(key):
                return self.handle(m.Trained(key))
            case m.Submit(key):
                return self.handle(m.Submitted(key))
            case m.Save(rounds_done):
                return self.handle(m.Saved(rounds_done))
        return []

    def _take_note(self, event: m.Event) -> m.Instruction | None:
        """What the world knows after this event; the instruction that it answers, if any."""
        match event:
            case m.Ready(next_round):
                self.rounds_done = self._first_round = next_round
            case m.Clock(key, finished) if self._clock is None or key >= self._clock:
                self._clock, self._finished, self._max_rounds = key, finished, event.max_rounds
            case m.PeersLive(nodes):
                self._live = nodes
            case m.PeerArrived(key, peer):
                self._arrived.add((key, peer))
            case m.Stop():
                self._stopping = True
        return self._answered_by(event)

    def _answered_by(self, event: m.Event) -> m.Instruction | None:
        for instruction in self.pending:
            if ANSWERS.get(type(event)) is type(instruction) and _names(event) == _names(instruction):
                self.pending.remove(instruction)
                if isinstance(instruction, m.Submit):
                    self.rounds_done = instruction.key.round + 1
                return instruction
        return None

    def _check(self, instruction: m.Instruction, answered: m.Instruction | None) -> None:
        assert self.finish is None, "nothing comes after Finish"
        if isinstance(instruction, STEPS):
            assert not [step for step in self.pending if isinstance(step, STEPS)], "one step at a time"
        match instruction:
            case m.Generate(key, skipped):
                self._check_generate(key, skipped)
            case m.Score(key):
                assert isinstance(answered, m.Generate)
                assert answered.key == key
            case m.Publish(key):
                assert isinstance(answered, m.Score)
                assert answered.key == key
            case m.BeginUpdate(key):
                self._check_begin(key)
            case m.GenerateAhead(key):
                self._check_ahead(key)
            case m.Train():
                self._check_train(instruction)
            case m.Submit(key):
                assert isinstance(answered, m.Train)
                assert answered.key == key
            case m.Save(rounds_done):
                assert rounds_done == self.rounds_done
                assert rounds_done not in self.saves, "no checkpoint is written twice"
                self.saves.append(rounds_done)
            case m.Finish(reason):
                self._check_finish(reason)
                self.finish = instruction
        if isinstance(instruction, STEPS):
            self._step = instruction

    def _check_generate(self, key: RoundKey, skipped: int) -> None:
        assert self.rounds_done is not None, "nothing begins before the policy is there"
        assert not self._stopping
        assert not self._finished
        assert key == self._clock, "a round begins where the clock is"
        assert key.round >= self.rounds_done, "no round is done twice"
        assert skipped == key.round - self.rounds_done

    def _check_train(self, train: m.Train) -> None:
        assert isinstance(self._step, m.Publish), "training comes after publishing"
        assert self._step.key == train.key
        assert train.key not in self.trained
        assert self.begun[-1] == train.key, "the gradients that are there are those of this round"
        assert train.heard == {peer for key, peer in self._arrived if key == train.key}
        assert train.awaited == self._live
        self.trained.append(train.key)

    def _check_begin(self, key: RoundKey) -> None:
        published = self._step == m.Publish(key)
        update_before_is_made = isinstance(self._step, m.Submit) and self._step.key.round == key.round - 1
        assert published or (update_before_is_made and key in self.ahead)
        assert key not in self.begun, "no gradient is added up twice"
        self.begun.append(key)

    def _check_ahead(self, key: RoundKey) -> None:
        assert self._staleness == 1
        assert not self._stopping
        assert not self._finished
        assert not self._max_rounds or key.round < self._max_rounds, "nothing is generated for a round that never comes"
        assert key not in self.ahead
        assert self._clock is None or key >= self._clock, "a round that is over is not worth generating for"
        assert isinstance(self._step, m.Score | m.Submit)
        ahead_of_updates = 1 if isinstance(self._step, m.Score) else 2
        assert key.round == self._step.key.round + ahead_of_updates, "at most one update lies in between"
        self.ahead.append(key)

    def _check_finish(self, reason: str) -> None:
        assert not self.pending, "nothing is cut off"
        assert reason == ("finished" if self._finished else "stopped")
        if self.rounds_done is not None and self.rounds_done != self._first_round:
            assert self.saves[-1] == self.rounds_done, "what was learned is saved"


def _names(message: object) -> object:
    """The round and stage, or the checkpoint, that an event or instruction is about."""
    return getattr(message, "key", getattr(message, "rounds_done", None))
