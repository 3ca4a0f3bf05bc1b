"""The worker's decisions, pure: events in, instructions out. The loop in worker.py carries them out.

    LOADING ─Ready─▶ IDLE ─Clock─▶ GENERATING ─▶ SCORING ─▶ PUBLISHING ─▶ GATHERING ─▶ TRAINING ─▶ SUBMITTING ─▶ IDLE
                      │                                        (J > 0)       │
                      └──finished or stopping──▶ SAVING ─▶ DONE              └ waits for every live peer, at most
                                                                               until a deadline that follows the swarm
    the compute executor meanwhile, one step at a time, in this order:
        generate r ─▶                              begin update r (own groups)   ─▶ finish update r (external groups)
        with staleness 1, the round ahead as well, so that it need not wait for the clock, the scorer or the peers:
        generate r ─▶ generate r+1 ─▶ begin r ─▶ finish r ─▶ generate r+2 ─▶ begin r+1 ─▶ finish r+1 ─▶ generate r+3
                                                            └ while the coordinator opens r+1, and its groups are
                                                              published and gathered

    IDLE       waits for: the state file to name a round that this node has not done
    GATHERING  waits for: the groups of every live peer; ends early when the last is in, late at the deadline,
                          and a moment after the clock has moved on without us
    SUBMITTING unblocks:  the coordinator

A round that was begun is finished, so that a slow node learns too; then it skips ahead to wherever the clock is.
A stop before the publishing of a round undoes that round (the draws of a round depend on nothing but seed, node and
round, so it comes out the same next time; with staleness 1, by a policy one update newer); after it, the round is
finished first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from swarm.node.pace import GatherPace
from swarm.types import RoundKey


class Phase(StrEnum):
    LOADING = "loading"
    IDLE = "idle"
    GENERATING = "generating"
    SCORING = "scoring"
    PUBLISHING = "publishing"
    GATHERING = "gathering"
    TRAINING = "training"
    SUBMITTING = "submitting"
    SAVING = "saving"
    DONE = "done"


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Ready:
    """The policy is loaded; rounds before `next_round` are done."""

    next_round: int


@dataclass(frozen=True)
class Clock:
    """The state file was read."""

    key: RoundKey
    finished: bool
    now: float
    interval: float = 0.0
    """The longest that the coordinator keeps a round open, seconds; 0: it did not say."""
    max_rounds: int = 0
    """How many rounds there will be; 0: it did not say."""


@dataclass(frozen=True)
class Generated:
    key: RoundKey


@dataclass(frozen=True)
class Scored:
    key: RoundKey


@dataclass(frozen=True)
class Published:
    key: RoundKey
    now: float


@dataclass(frozen=True)
class PeersLive:
    """The live workers other than this one."""

    nodes: frozenset[str]
    now: float


@dataclass(frozen=True)
class PeerArrived:
    """All that a peer published for this round and stage is verified and scored, or refused."""

    key: RoundKey
    peer: str
    now: float


@dataclass(frozen=True)
class Tick:
    """`wake_at` has come."""

    now: float


@dataclass(frozen=True)
class Trained:
    key: RoundKey


@dataclass(frozen=True)
class Submitted:
    key: RoundKey


@dataclass(frozen=True)
class Saved:
    rounds_done: int


@dataclass(frozen=True)
class SaveFailed:
    """A checkpoint on the way could not be written; the next one is due as if it had not been asked for."""

    rounds_done: int


@dataclass(frozen=True)
class Stop:
    """Finish the step, save, and end."""

    now: float


Event = (
    Ready
    | Clock
    | Generated
    | Scored
    | Published
    | PeersLive
    | PeerArrived
    | Tick
    | Trained
    | Submitted
    | Saved
    | SaveFailed
    | Stop
)


# ── instructions ────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Generate:
    key: RoundKey
    skipped: int
    """Rounds that the clock ran ahead while this node was away or busy."""


@dataclass(frozen=True)
class GenerateAhead:
    """Generate and score the groups of a round that is not open yet; its Generate takes them up."""

    key: RoundKey


@dataclass(frozen=True)
class Score:
    key: RoundKey


@dataclass(frozen=True)
class Publish:
    key: RoundKey


@dataclass(frozen=True)
class BeginUpdate:
    """Add up the gradients of the own groups while those of the peers come in; answered by no event.

    Of a round that was generated ahead, as soon as the update before it is made. If that round is then skipped, the
    next BeginUpdate starts from nothing.
    """

    key: RoundKey


@dataclass(frozen=True)
class Train:
    """Add those of J groups sampled from what the heard peers published, and make the update."""

    key: RoundKey
    heard: frozenset[str]
    awaited: frozenset[str]
    timed_out: bool
    late: bool


@dataclass(frozen=True)
class Submit:
    key: RoundKey


@dataclass(frozen=True)
class Save:
    """Write a checkpoint after so many rounds."""

    rounds_done: int


@dataclass(frozen=True)
class Finish:
    reason: str
    """`finished`: the experiment is over; `stopped`: somebody asked."""


Instruction = Generate | GenerateAhead | Score | Publish | BeginUpdate | Train | Submit | Save | Finish

GATHER_SHARE = 0.5
"""Of the round's interval; the rest is for training and submitting before the coordinator closes the round."""
LATE_GRACE = 1.0
"""Seconds that a node whose round has already closed still waits for groups: they have been there for a while."""


class WorkerMachine:
    """Owns the round, not the files, tasks, time or tensors of it."""

    def __init__(
        self, *, external_groups: int, round_interval: float, checkpoint_interval: int, staleness: int = 0
    ) -> None:
        self._wants_peers = external_groups > 0
        self._staleness = staleness
        self._checkpoint_interval = checkpoint_interval
        self._pace = GatherPace(longest=round_interval * GATHER_SHARE)
        self.phase = Phase.LOADING
        self.key: RoundKey | None = None
        """The round and stage that this node works on, or did last."""
        self.wake_at: float | None = None
        """When to send a Tick, on the same clock as every `now`."""
        self._next = RoundKey(0)
        self._clock: RoundKey | None = None
        self._max_rounds = 0
        self._ahead: RoundKey | None = None
        """The furthest round that GenerateAhead was given for."""
        self._begun: RoundKey | None = None
        """The last round that BeginUpdate was given for."""
        self._finished = False
        self._stopping = False
        self._live: frozenset[str] = frozenset()
        self._arrived: dict[RoundKey, set[str]] = {}
        self._gather_since = 0.0
        self._save_asked = self._saved = 0

    # ── what is known ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def rounds_done(self) -> int:
        """The first round that is not behind this node."""
        return self._next.round

    def _late(self, key: RoundKey) -> bool:
        return self._finished or (self._clock is not None and self._clock > key)

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────────────────
    def handle(self, event: Event) -> Sequence[Instruction]:
        """Take one event; instructions come in the order in which they are to be carried out."""
        match event:
            case Ready(next_round):
                self._next = RoundKey(next_round)
                self._save_asked = self._saved = next_round
                return self._idle()
            case Clock():
                return self._on_clock(event)
            case Generated(key) if self._working(key, Phase.GENERATING):
                return self._leave() if self._stopping else self._score(key)
            case Scored(key) if self._working(key, Phase.SCORING):
                return self._leave() if self._stopping else self._publish(key)
            case Published(key, now) if self._working(key, Phase.PUBLISHING):
                return self._begin_gather(now)
            case PeersLive(nodes, now):
                self._live = nodes
                return self._look_around(now)
            case PeerArrived(key, peer, now):
                self._arrived.setdefault(key, set()).add(peer)
                return self._look_around(now)
            case Tick(now):
                return self._look_around(now)
            case Trained(key) if self._working(key, Phase.TRAINING):
                return self._submit(key)
            case Submitted(key) if self._working(key, Phase.SUBMITTING):
                return self._end_round(key)
            case Saved(rounds_done):
                return self._on_saved(rounds_done)
            case SaveFailed():
                self._save_asked = self._saved
                return self._save() if self.phase is Phase.SAVING else ()
            case Stop(now):
                return self._on_stop(now)
        return ()

    def _working(self, key: RoundKey, phase: Phase) -> bool:
        return self.phase is phase and self.key == key

    def _enter(self, phase: Phase, *instructions: Instruction) -> Sequence[Instruction]:
        self.phase = phase
        return instructions

    def _on_clock(self, event: Clock) -> Sequence[Instruction]:
        if self._clock is not None and event.key < self._clock:
            return ()  # an older copy of the state file: the clock never goes back
        self._clock, self._finished, self._max_rounds = event.key, event.finished, event.max_rounds
        if event.interval:
            self._pace.longest = event.interval * GATHER_SHARE
        if self.phase is Phase.IDLE:
            return self._idle()
        return self._look_around(event.now)

    def _idle(self) -> Sequence[Instruction]:
        self.phase = Phase.IDLE
        if self._stopping or self._finished:
            return self._leave()
        if self._clock is None or self._clock < self._next:
            return ()
        self.key, skipped = self._clock, self._clock.round - self._next.round
        self._arrived = {key: peers for key, peers in self._arrived.items() if key >= self.key}
        return self._enter(Phase.GENERATING, Generate(self.key, skipped))

    def _score(self, key: RoundKey) -> Sequence[Instruction]:
        return self._enter(Phase.SCORING, Score(key), *self._look_ahead(key))

    def _submit(self, key: RoundKey) -> Sequence[Instruction]:
        following = RoundKey(key.round + 1)
        if self._ahead != following or self._stopping or self._late(following):
            return self._enter(Phase.SUBMITTING, Submit(key))
        return self._enter(Phase.SUBMITTING, Submit(key), *self._look_ahead(following), *self._begin(following))

    def _publish(self, key: RoundKey) -> Sequence[Instruction]:
        return self._enter(Phase.PUBLISHING, Publish(key), *self._begin(key))

    def _begin(self, key: RoundKey) -> Sequence[Instruction]:
        if self._begun == key:
            return ()
        self._begun = key
        return (BeginUpdate(key),)

    def _look_ahead(self, key: RoundKey) -> Sequence[Instruction]:
        """With the groups of `key` made, those of the round after it may be, once; `staleness` updates behind."""
        ahead = RoundKey(key.round + 1)
        wanted = self._staleness and not self._stopping and not self._late(ahead)
        if not wanted or (self._max_rounds and ahead.round >= self._max_rounds) or self._ahead == ahead:
            return ()
        self._ahead = ahead
        return (GenerateAhead(ahead),)

    def _begin_gather(self, now: float) -> Sequence[Instruction]:
        assert self.key is not None
        if not self._wants_peers:
            return self._enter(Phase.TRAINING, self._train(timed_out=False))
        self.phase, self._gather_since = Phase.GATHERING, now
        self.wake_at = now + self._pace.allowance()
        return self._look_around(now)

    def _look_around(self, now: float) -> Sequence[Instruction]:
        if self.phase is not Phase.GATHERING or self.key is None or self.wake_at is None:
            return ()
        if self._late(self.key):
            self.wake_at = min(self.wake_at, now + LATE_GRACE)
        complete = self._live <= self._arrived.get(self.key, set())
        if not complete and not self._stopping and now < self.wake_at:
            return ()
        if not self._stopping:
            self._pace.observe(now - self._gather_since)
        self.wake_at = None
        return self._enter(Phase.TRAINING, self._train(timed_out=not complete))

    def _train(self, *, timed_out: bool) -> Train:
        assert self.key is not None
        heard = frozenset(self._arrived.get(self.key, ()))
        return Train(self.key, heard, self._live, timed_out, self._late(self.key))

    def _end_round(self, key: RoundKey) -> Sequence[Instruction]:
        self._next = RoundKey(key.round + 1)
        interval = self._checkpoint_interval  # counted in passed multiples: a slow node never hits them exactly
        due = interval and self._next.round // interval > self._save_asked // interval
        leaving = self._stopping or self._finished  # then _leave saves, once
        saves = self._save() if due and not leaving else ()
        return [*saves, *self._idle()]

    def _save(self) -> Sequence[Instruction]:
        if self._save_asked == self._next.round:
            return ()
        self._save_asked = self._next.round
        return (Save(self._next.round),)

    def _leave(self) -> Sequence[Instruction]:
        """Save what is not saved, and wait for a checkpoint that is still being written."""
        if self._saved == self._next.round:
            return self._finish()
        return self._enter(Phase.SAVING, *self._save())

    def _on_saved(self, rounds_done: int) -> Sequence[Instruction]:
        self._saved = max(self._saved, rounds_done)
        return self._finish() if self.phase is Phase.SAVING and rounds_done == self._next.round else ()

    def _finish(self) -> Sequence[Instruction]:
        return self._enter(Phase.DONE, Finish("stopped" if self._stopping and not self._finished else "finished"))

    def _on_stop(self, now: float) -> Sequence[Instruction]:
        self._stopping = True
        if self.phase is Phase.LOADING:
            return self._finish()
        if self.phase is Phase.IDLE:
            return self._leave()
        return self._look_around(now)
