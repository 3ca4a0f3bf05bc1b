"""The worker's decisions, pure: events in, instructions out. The loop in worker.py carries them out.

LOADING ─Ready─▶ IDLE ─ClockSeen─▶ GENERATING ─▶ SCORING ─▶ PUBLISHING ─▶ GATHERING ─▶ TRAINING ─▶ SUBMITTING ─▶ IDLE
                  │                                            (J > 0)       │
                  └──finished or stopping──▶ SAVING ─▶ DONE                  └ waits for every live peer, at most
                                                                               until a deadline that follows the swarm,
                                                                               or half an interval while nobody is there
    the compute executor meanwhile, one step at a time, in this order:
        generate r ─▶                              begin update r (own groups)   ─▶ finish update r (external groups)
        with staleness 1, the round ahead as well, so that it need not wait for the clock, the scorer or the peers:
        generate r ─▶ generate r+1 ─▶ begin r ─▶ finish r ─▶ generate r+2 ─▶ begin r+1 ─▶ finish r+1 ─▶ generate r+3
                                                            └ while the coordinator opens r+1, and its groups are
                                                              published and gathered

    IDLE       waits for: the state file to name a round that this node has not done; on a clock of its own for nothing,
                          or, before round 0, for the workers that are to begin with it
    GATHERING  waits for: the files of every live peer that is worth waiting for (attendance.py); ends early when the
                          last is there, late at the deadline, and a moment after the clock has moved on without us;
                          then for J groups to be drawn of them; goes on where a file that was drawn is not its peer's
    SUBMITTING unblocks:  the coordinator

The clock      coordinator's ──no coordinator alive for `patience` seconds──▶ own ──one is alive again──▶ coordinator's
                               by a look that began after them
               own          from the start, where there is to be no coordinator

On its own clock a node does one round after the other, and takes of each peer the newest groups that are at most
`window` rounds older or newer than its own round.

A round that was begun is finished, so that a slow node learns too; then it skips ahead to wherever the clock is.
A stop before the publishing of a round undoes that round (it comes out the same next time: what was sampled for it
lies in its completions file, and its draws depend on nothing but seed, node and round); after it, the round is finished
first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence, Set

from swarm.config import Settings
from swarm.node.base.attendance import INTERVALS, Attendance, Settling
from swarm.node.sharing.examination import FileNews
from swarm.node.worker import events as m
from swarm.types import RoundKey, stage_after

GATHER_SHARE = 0.5
"""Of the round's interval; the rest is for training and submitting before the coordinator closes the round."""
LATE_GRACE = 1.0
"""Seconds that a node whose round has already closed still waits for groups: they have been there for a while."""


class WorkerMachine:
    """Owns the round, not the files, tasks, time or tensors of it."""

    def __init__(self, settings: Settings) -> None:
        """Make a machine that is still loading."""
        self._settings = settings
        self._own_clock = settings.clock == "own"
        """There is to be no coordinator."""
        self._max_rounds = settings.max_rounds
        """After how many rounds a node on its own clock is finished, unless a coordinator said otherwise."""
        self._pace = GatherPace(longest=settings.round_interval * GATHER_SHARE)
        self._attendance = Attendance(self._pace.longest)
        self.on_own_clock = self._own_clock
        """Nobody else says which round comes next."""
        self.phase = m.Phase.LOADING
        self.key: RoundKey | None = None
        """The round and stage that this node works on, or did last."""
        self.wake_at: float | None = None
        """When to send a Tick, on the same clock as every `now`."""
        self._next = self._came_with = RoundKey(0)
        self._clock: RoundKey | None = None
        self._now = -math.inf
        """The latest that any event said."""
        self._coordinator_gone: float | None = None
        """Since when a clock that ran is seen to be kept by no live coordinator."""
        self._looked_at = -math.inf
        """When the last look for a coordinator began."""
        self._waiting_since: float | None = None
        """Since when a node on its own clock waits for others to begin with, of whom it knows how many or who."""
        self._settling = Settling(settings.seconds_to_settle, INTERVALS * settings.round_interval)
        """Of its beginning, where it does not."""
        self._ahead: RoundKey | None = None
        """The furthest round that GenerateAhead was given for."""
        self._begun: RoundKey | None = None
        """The last round that BeginUpdate was given for."""
        self._finished = False
        self._stopping = False
        self._live: frozenset[str] = frozenset()
        self._called: frozenset[str] = frozenset()
        self._coming: frozenset[str] = frozenset()
        self._somebody_published = False
        self._arrived: dict[RoundKey, set[str]] = {}
        self._gather_since = self._gather_until = self._hear_until = 0.0
        self._drawing: dict[str, RoundKey] | None = None
        """Of which groups are being drawn."""
        self._save_asked = self._saved = RoundKey(0)

    # ── what is known ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def rounds_done(self) -> int:
        """The first round that is not behind this node."""
        return self._next.round

    @property
    def next(self) -> RoundKey:
        """The first stage that is not behind this node."""
        return self._next

    @property
    def earned(self) -> Set[str]:
        """Peers of which something valid was taken in."""
        return self._attendance.earned

    def is_stopping(self) -> bool:
        """Somebody has asked it to end."""
        return self._stopping

    @property
    def left_behind(self) -> bool:
        """The round that this node works on is over."""
        return self.key is not None and self._late(self.key)

    def waits_for_newcomers(self, following: RoundKey) -> bool:
        """Whether it begins on its own clock, and nobody said with how many others; who finds them at work does not."""
        settings = self._settings
        alone = not settings.shares or settings.expected_workers is not None
        return self._own_clock and not following.round and not alone and not self._somebody_published

    def _late(self, key: RoundKey) -> bool:
        return self._finished or (self._clock is not None and self._clock > key)

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────────────────
    def handle(self, event: m.Event) -> Sequence[m.Instruction]:
        """Take one event; instructions come in the order in which they are to be carried out."""
        self._now = max(self._now, getattr(event, "now", self._now))
        match event:
            case m.Ready(following, unsaved) if self.phase is m.Phase.LOADING:  # else it was stopped meanwhile
                self._next = self._came_with = following
                if unsaved:  # at once, so that a second death does not cost the redoing again
                    return [*self._save(), *self._idle()]
                self._save_asked = self._saved = self._next
                return self._idle()
            case m.ClockSeen():
                return self._on_clock(event)
            case m.StepDone(phase, key) if self._working(key, phase):
                return self._step_done(phase, key)
            case m.PeersLive(nodes, _, publishing, called, coming):
                self._live, self._called, self._coming = nodes, called, coming
                self._somebody_published = self._somebody_published or bool(publishing)
                self._attendance.seen(publishing)
                return self._look_around()
            case m.CoordinatorSeen(alive, looked_at):
                return self._on_coordinator(alive, looked_at)
            case m.PeersNews(FileNews.THERE, key, peers):
                self._arrived.setdefault(key, set()).update(peers)
                return self._look_around()
            case m.PeersNews(FileNews.NOT_THEIRS, key, peers):
                self._arrived.get(key, set()).difference_update(peers)
            case m.PeersNews(FileNews.VALID, _, peers):
                self._attendance.earn(peers)
            case m.Drawn(key, complete) if self._working(key, m.Phase.GATHERING):
                return self._on_drawn(complete)
            case m.Tick():
                return self._look_around()
            case m.Saved(done):
                return self._on_saved(done)
            case m.SaveFailed(done) if done == self._save_asked:  # else a later
                self._save_asked = self._saved
                return self._save() if self.phase is m.Phase.SAVING else ()
            case m.Stop():
                return self._on_stop()
        return ()

    def _working(self, key: RoundKey, phase: m.Phase) -> bool:
        return self.phase is phase and self.key == key

    def _enter(self, phase: m.Phase, *instructions: m.Instruction) -> Sequence[m.Instruction]:
        self.phase = phase
        return instructions

    def _on_clock(self, event: m.ClockSeen) -> Sequence[m.Instruction]:
        older = self._clock is not None and event.key < self._clock  # a stale copy of the file: it never goes back
        if not self._own_clock and (not older or event.back):
            self._clock, self._finished = event.key, event.finished
            self._max_rounds = event.max_rounds or self._max_rounds
            if event.interval:
                self._pace.longest = self._attendance.longest = event.interval * GATHER_SHARE
        return self._look_around()

    def _on_coordinator(self, alive: bool, looked_at: float) -> Sequence[m.Instruction]:
        self._looked_at = max(self._looked_at, looked_at)
        if alive:
            self._coordinator_gone, self.on_own_clock = None, self._own_clock
        elif self._coordinator_gone is None and self._clock_ran():
            self._coordinator_gone = self._now
        return self._look_around()

    def _clock_ran(self) -> bool:
        """Known to a node that has seen the clock, has done rounds, or sees that somebody has published, also where
        it finds no state file that it can read.
        """
        return self._clock is not None or self._next > RoundKey(0) or self._somebody_published

    def _idle(self) -> Sequence[m.Instruction]:
        self.phase, self.wake_at = m.Phase.IDLE, None
        self._go_on_alone()
        if self.on_own_clock and self._max_rounds and self._next.round >= self._max_rounds:
            self._finished = True
        if self._stopping or self._finished:
            return self._leave()
        opened = self._open_round()
        if opened is None:
            return ()
        self.key, self.wake_at, skipped = opened, None, opened.round - self._next.round
        oldest = RoundKey(opened.round - self._settings.staleness_window)
        self._arrived = {key: peers for key, peers in self._arrived.items() if key >= oldest}
        return self._enter(m.Phase.GENERATING, m.Generate(opened, skipped))

    def _go_on_alone(self) -> None:
        """A clock that nobody keeps any longer is kept by the node itself; one that never ran is waited for.

        Only a look that began after patience ended shows that nobody keeps it: of a process that stood still, the last
        one before may be as old as that, and what has happened since is not known yet.
        """
        if self._coordinator_gone is None:
            return
        if self._looked_at >= self._coordinator_gone + self._settings.patience_with_coordinator:
            self.on_own_clock = True

    def _open_round(self) -> RoundKey | None:
        """The round to begin now, None while there is none."""
        if self._own_clock:
            return self._next if self._enough_are_there() else None
        if self.on_own_clock:
            return max(self._clock or self._next, self._next)
        return self._clock if self._clock is not None and self._clock >= self._next else None

    def _enough_are_there(self) -> bool:
        """Those that begin together learn from each other from round 0 on; who comes later finds them at work."""
        if self._next.round:
            return True
        if self.waits_for_newcomers(self._next):
            return self._all_have_come()
        names, count = self._settings.expected_names, self._settings.expected_count or 1
        if names <= self._called if names else len(self._live) + 1 >= count:
            return True
        if self._waiting_since is None:
            self._waiting_since = self._now
        self.wake_at = self._waiting_since + self._settings.round_interval
        return self._now >= self.wake_at

    def _all_have_come(self) -> bool:
        """Tells whether all have come, as round 0 opens with a coordinator where nobody is expected."""
        self.wake_at = self._settling.look(self._now, self._coming, self._live | {self._settings.node_id or ""})
        return self.wake_at is None

    def _step_done(self, phase: m.Phase, key: RoundKey) -> Sequence[m.Instruction]:
        match phase:
            case m.Phase.GENERATING | m.Phase.SCORING if self._stopping:
                return self._leave()
            case m.Phase.GENERATING:
                return self._step(m.Phase.SCORING, key, *self._look_ahead(key))
            case m.Phase.SCORING:
                return self._step(m.Phase.PUBLISHING, key, *self._begin(key))
            case m.Phase.PUBLISHING:
                return self._begin_gather()
            case m.Phase.TRAINING:
                following = stage_after(key, self._settings.max_stages)
                return self._step(m.Phase.SUBMITTING, key, *self._go_on_ahead(following))
            case m.Phase.SUBMITTING:
                return self._end_round(key)
        return ()

    def _step(self, phase: m.Phase, key: RoundKey, *beside: m.Instruction) -> Sequence[m.Instruction]:
        return self._enter(phase, m.Step(phase, key), *beside)

    def _go_on_ahead(self, following: RoundKey) -> Sequence[m.Instruction]:
        if self._ahead != following or self._stopping or self._late(following):
            return ()
        return (*self._look_ahead(following), *self._begin(following))

    def _begin(self, key: RoundKey) -> Sequence[m.Instruction]:
        if self._begun == key:
            return ()
        self._begun = key
        return (m.BeginUpdate(key),)

    def _look_ahead(self, key: RoundKey) -> Sequence[m.Instruction]:
        """With the groups of `key` made, those of the round after it may be, once; `staleness` updates behind."""
        ahead = RoundKey(key.round + 1)
        wanted = self._settings.staleness and not self._stopping and not self._late(ahead)
        if not wanted or (self._max_rounds and ahead.round >= self._max_rounds) or self._ahead == ahead:
            return ()
        self._ahead = ahead
        return (m.GenerateAhead(ahead),)

    def _begin_gather(self) -> Sequence[m.Instruction]:
        assert self.key is not None
        if not self._settings.shares:
            return self._enter(m.Phase.TRAINING, self._train(frozenset(), frozenset(), timed_out=False))
        self.phase, self._gather_since, self._drawing = m.Phase.GATHERING, self._now, None
        self._gather_until = self._now + self._pace.allowance()
        self._hear_until = self._now + self._pace.longest
        return self._look_around()

    def _look_around(self) -> Sequence[m.Instruction]:
        """See whether what this node waits for is there by now, or is to be waited for no longer."""
        if self.phase is m.Phase.IDLE:
            return self._idle()
        if self.phase is not m.Phase.GATHERING or self.key is None or self._drawing is not None:
            return ()
        if self._late(self.key):
            self._gather_until = min(self._gather_until, self._now + LATE_GRACE)
            self._hear_until = min(self._hear_until, self._now + LATE_GRACE)
        sources = self._sources(self.key)
        if self._still_missing(sources.keys()):
            self.wake_at = self._deadline(sources.keys())
            return ()
        self._drawing, self.wake_at = sources, None
        until = max(self._deadline(sources.keys()), self._now + LATE_GRACE)
        return (m.Draw(self.key, tuple(sorted(sources.items())), until),)

    def _still_missing(self, there: Set[str]) -> frozenset[str]:
        """Peers that are to be waited for any longer."""
        until = self._deadline(there)
        missing = self._attendance.wait(self._live, there, min(self._now, until))
        return frozenset() if self._stopping or self._now >= until else missing

    def _deadline(self, there: Set[str]) -> float:
        """Where nobody at all is there it is not a peer that is slow, but this machine, or the way to the others."""
        return self._gather_until if there else self._hear_until

    def _on_drawn(self, complete: bool) -> Sequence[m.Instruction]:
        """Train on what was drawn, unless somebody is to be waited for: who is new, or whose file turned out none."""
        sources, self._drawing = self._drawing or {}, None
        heard = frozenset(peer for peer, key in sources.items() if peer in self._arrived.get(key, ()))
        if self._still_missing(heard):
            return self._look_around()
        awaited = self._attendance.awaited(self._live)
        if not self._stopping:
            self._pace.observe(self._now - self._gather_since)
            self._attendance.close(self._live, heard)
        return self._enter(
            m.Phase.TRAINING, self._train(heard, awaited, timed_out=not complete or not awaited <= heard)
        )

    def _sources(self, mine: RoundKey) -> dict[str, RoundKey]:
        """Returns for each peer the newest round that may be taken of it; the order of arrival makes no difference."""
        reach = self._settings.staleness_window if self.on_own_clock else 0
        return {
            peer: key
            for key in sorted(self._arrived)
            if abs(key.round - mine.round) <= reach and (reach or key.stage == mine.stage)
            for peer in self._arrived[key]
        }

    def _train(self, heard: frozenset[str], awaited: frozenset[str], *, timed_out: bool) -> m.Train:
        assert self.key is not None
        return m.Train(self.key, heard, awaited, timed_out, self._late(self.key))

    def _end_round(self, key: RoundKey) -> Sequence[m.Instruction]:
        self._next = stage_after(key, self._settings.max_stages)
        interval = self._settings.checkpoint_interval  # in passed multiples: a slow node never hits them exactly
        due = interval and not self._next.stage and self._next.round // interval > self._save_asked.round // interval
        leaving = self._stopping or self._finished  # then _leave saves, once
        saves = self._save() if due and not leaving else ()
        return [*saves, *self._idle()]

    def _save(self) -> Sequence[m.Instruction]:
        if self._save_asked == self._next:
            return ()
        self._save_asked = self._next
        return (m.Save(self._next),)

    def _leave(self) -> Sequence[m.Instruction]:
        """Save what is not saved, and wait for a checkpoint that is still being written."""
        self.wake_at = None
        if self._saved == self._next:
            return self._finish()
        return self._enter(m.Phase.SAVING, *self._save())

    def _on_saved(self, done: RoundKey) -> Sequence[m.Instruction]:
        self._saved = max(self._saved, done)
        return self._finish() if self.phase is m.Phase.SAVING and done == self._next else ()

    def _finish(self) -> Sequence[m.Instruction]:
        over = self._clock.round if self._clock and self._finished else 0
        left, nothing_done = over - self._next.round, self._next == self._came_with
        if left > 0 and nothing_done and self.phase is not m.Phase.LOADING:  # else it may have rounds behind it
            return self._enter(m.Phase.DONE, m.Finish("missed", rounds_missed=left))
        return self._enter(m.Phase.DONE, m.Finish("stopped" if self._stopping and not self._finished else "finished"))

    def _on_stop(self) -> Sequence[m.Instruction]:
        self._stopping = True
        if self.phase is m.Phase.LOADING:
            return self._finish()
        return self._look_around()


class GatherPace:
    """A deadline that follows the swarm: some multiple of the slowest of the recent waits.

    A wait that ended at its deadline was longer than what was seen, so it counts as such and the next deadline grows;
    waits that ended early let it shrink again as they leave the window.
    """

    FACTOR, SLACK, WINDOW = 2.0, 0.5, 8
    LEAST = 0.1
    """Share of the longest wait: who was last for a while, and waited for nobody, still waits when it is first."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        """Seconds that no wait exceeds."""
        self._waits: deque[float] = deque(maxlen=self.WINDOW)

    def allowance(self) -> float:
        """Returns seconds to wait this time, at most `longest`; all of that before anything was learned."""
        if not self._waits:
            return self.longest
        learned = self.FACTOR * max(self._waits) + self.SLACK
        return min(self.longest, max(learned, self.LEAST * self.longest))

    def observe(self, waited: float) -> None:
        """A gather took so many seconds until all awaited peers were there, or until its deadline."""
        self._waits.append(waited)
