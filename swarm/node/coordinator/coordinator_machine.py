"""The coordinator's decisions, pure: looks at the folder in, state files out.

        waiting for workers ──they are there──▶ open(R, S) ──advance──▶ ... ──▶ finished

    waiting for workers   expected by number or name: for these, one interval after the first at most
                          else: until all who came are ready and no new one has come for a while (Settling)
                          after a restart: for nobody, where a worker is at work in the round; else as above, or until
                          all who have rewards in the last rounds are ready
    open(R, S) waits for: the reward of every live worker that is worth waiting for (attendance.py), or the end of the
                          interval with any there; and of those that load again after a death: while fewer are live
                          than are expected, or else for two median rounds (Returning)
    open(R, S) unblocks:  the workers, which wait for the state file to move on

The clock never goes back. It stands still while no worker is alive, and MOST_EMPTY rounds after the last one that a
reward came for: names that beat and do nothing use up no more. It goes forward to where most of its workers are, which
have gone on without it, and to where another coordinator has taken it. Only a reward that counts (Submissions) moves
it; where workers are expected by name, only theirs open it and move it forward.

What the folder says is held against what was decided, at every look: a state that could not be written, was torn or
was taken away is written again, before anything else is decided. Of two coordinators the one that came later steps
down; nothing in a replicated folder could keep both from writing meanwhile, so both write nothing but forwards.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from swarm.config import Settings
from swarm.node.base.attendance import INTERVALS, Attendance, Settling
from swarm.types import RoundKey

MOST_EMPTY = 3
"""The round from which on the clock moves only where a reward lies in it or in as many before it."""

RESTORED = "restored"
"""Reason of a state that the folder ought to say already."""


class FolderClock(NamedTuple):
    """Holds where the state file says that the clock is."""

    key: RoundKey
    finished: bool
    held: bool = False


@dataclass(frozen=True)
class CoordinatorLook:
    """Holds what the folder showed at one moment."""

    now: float
    """Seconds on this process's monotonic clock."""
    live: frozenset[str]
    """Workers that are alive and take part."""
    submitted: frozenset[str]
    """Nodes whose reward for the machine's `round_in_hand` lies there."""
    clock: FolderClock | None
    """None if there is no state file, or none that a coordinator of this experiment can have written."""
    front: RoundKey | None = None
    """The furthest round that most live workers have done, if it lies beyond the `round_in_hand`."""
    submitted_before: frozenset[str] = frozenset()
    """Nodes whose reward for one of the MOST_EMPTY rounds before lies there."""
    called: frozenset[str] = frozenset()
    """What the live workers are called in the setting `expected_workers`: names and public keys."""
    coming: frozenset[str] = frozenset()
    """Workers that are starting: they load their models, or redo what a kill took from their weights."""
    working: frozenset[str] = frozenset()
    """Live workers that say of themselves that they have come to the machine's `round_in_hand`, or the one before."""
    rival: str | None = None
    """A live coordinator with the older claim."""
    without_a_say: frozenset[str] = frozenset()
    """Nodes that submitted and move no clock: not the expected ones, where workers are expected by name."""

    @property
    def counted(self) -> frozenset[str]:
        """Returns those with a say who submitted a reward for the round."""
        return self.submitted - self.without_a_say

    @property
    def counted_lately(self) -> frozenset[str]:
        """Returns the same, for the round or one of the MOST_EMPTY before."""
        return (self.submitted | self.submitted_before) - self.without_a_say


@dataclass(frozen=True)
class WriteState:
    """Publish the state file; everything later waits until it is there."""

    key: RoundKey
    finished: bool
    reason: str
    """Why the clock moved: `opened`, `all_submitted`, `interval`, `caught_up`, `done`; or RESTORED: it did not."""
    missing: frozenset[str] = frozenset()
    """Who was waited for in vain; at the first opening expected names and keys, or else those with rewards in the last
    rounds, that nobody there has."""
    not_awaited: frozenset[str] = frozenset()
    """Live workers without a reward that nobody waits for any more (attendance.py)."""


@dataclass(frozen=True)
class StepDown:
    """Leave the clock to another coordinator."""

    rival: str


Decision = WriteState | StepDown


def majority_front(
    key: RoundKey, voters: frozenset[str], submitted: Callable[[RoundKey], frozenset[str]]
) -> RoundKey | None:
    """Returns the furthest round after `key` that more than half of the voters have submitted a reward for.

    Workers without a coordinator do every round, so there is no gap to look beyond; and one liar moves nobody's clock.

    Args:
        voters: the live workers that have earned a say.
        submitted: the nodes with a reward that counts for a round.
    """
    furthest = None
    following = RoundKey(key.round + 1)
    while 2 * len(voters & submitted(following)) > len(voters):
        furthest, following = following, RoundKey(following.round + 1)
    return furthest


class CoordinatorMachine:
    """Owns the round clock; owns no file, task or time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attendance = Attendance(settings.round_interval)
        self._returning = Returning()
        self._settling: Settling | None = None
        """Settling of the beginning; None: it is over, or has not begun."""
        self.key: RoundKey | None = None
        """The open round and stage; None before the first."""
        self.finished = False
        """All rounds are done; the state file says so only once the last decision was carried out."""
        self._resume_at = RoundKey(0)
        self._opened_at: float | None = None

    @property
    def round_in_hand(self) -> RoundKey:
        """Returns the round that a look is about: the open one, or the one that is to be opened."""
        return self.key or self._resume_at

    def resume(self, key: RoundKey) -> WriteState | None:
        """Take over where the folder says; called once, before the first look.

        Returns:
            The finished state if there is no round left to run, else None.
        """
        self._resume_at = key
        if key.round >= self._settings.max_rounds:
            return self._finish("done")
        return None

    def handle(self, look: CoordinatorLook) -> Decision | None:
        """Decide on one look: move the clock by one step or leave it."""
        if look.rival is not None:
            return StepDown(look.rival)
        self._follow(look)
        if self.key is not None and look.clock != FolderClock(self.key, self.finished):
            return WriteState(self.key, self.finished, RESTORED)
        if self.finished:
            return None
        if look.front is not None and look.front > self.round_in_hand:
            if look.front.round >= self._settings.max_rounds:
                return self._finish("caught_up")
            return self._open(look.front, look, "caught_up")
        return self._keep_time(look)

    def _follow(self, look: CoordinatorLook) -> None:
        """Follows another coordinator that may have been ahead: while this one was paused, or before it."""
        if look.clock is None or look.clock.key <= self.round_in_hand:
            return
        if self.key is None:
            self._resume_at = look.clock.key
        else:
            self.key, self._opened_at = look.clock.key, look.now
        if look.clock.key.round >= self._settings.max_rounds:
            self.key, self.finished = look.clock.key, True

    def _keep_time(self, look: CoordinatorLook) -> WriteState | None:
        self._attendance.earn(look.submitted | look.submitted_before)
        self._returning.done(look.submitted)
        if not self._somebody_is_there(look) and not self._nobody_is_left_to_come(look):
            self._opened_at = None  # the interval counts from when somebody is there
            self._nobody_yet(look)
            return None
        if self._opened_at is None:
            self._opened_at = look.now
        if self.key is None:
            return self._begin(look)
        returning = self._those_returning(look)
        if not self._gathered_again(look, returning):
            return None
        missing = self._attendance.wait(look.live | returning, look.submitted, look.now)
        if not missing and look.counted:
            return self._advance(look, "all_submitted", returning)
        may_pass = bool(look.counted_lately) or self.key.round < MOST_EMPTY
        overdue = self._overdue(look) and look.live and may_pass
        return self._advance(look, "interval", returning) if overdue else None

    def _overdue(self, look: CoordinatorLook) -> bool:
        return self._opened_at is not None and look.now - self._opened_at >= self._settings.round_interval

    # ── the beginning ───────────────────────────────────────────────────────────────────────────────────────────────
    def _nobody_yet(self, look: CoordinatorLook) -> None:
        """Counts those who come from the first look on; that they come keeps no round open."""
        if self._settings.expected_workers is None and (self.key is None or look.coming & self._attendance.earned):
            self._settles(look)

    def _begin(self, look: CoordinatorLook) -> WriteState | None:
        """Open the round in hand, once those are there that it waits for."""
        if look.clock is not None and look.working:  # it is open: only its coordinator had stopped
            return self._open(self._resume_at, look, "opened")
        overdue = self._overdue(look)
        if self._settings.expected_workers is not None:
            if not overdue and not self.expected_are_there(look):
                return None
            return self._open(self._resume_at, look, "opened", self._absent(look))
        if not self._settles(look) or (overdue and not look.live):  # the last round was done by workers that are gone
            return self._open(self._resume_at, look, "opened")
        return None

    def _absent(self, look: CoordinatorLook) -> frozenset[str]:
        """Returns the expected workers that are not there, as far as it is known who they are."""
        if self.expected_are_there(look):
            return frozenset()
        return self._settings.expected_names - look.called or look.submitted_before - look.live

    def _settles(self, look: CoordinatorLook) -> bool:
        """Tells whether the beginning still waits."""
        if self._settling is None:
            longest = INTERVALS * self._settings.round_interval
            self._settling = Settling(self._settings.seconds_to_settle, longest, look.submitted_before)
        waits = self._settling.look(look.now, look.coming, look.live) is not None
        if not waits:
            self._settling = None
        return waits

    def _gathered_again(self, look: CoordinatorLook, returning: frozenset[str]) -> bool:
        """Tells whether an open round that everybody had left goes on: as at the start, they are waited for."""
        if not look.live and returning:
            if self._settings.expected_workers is None:
                self._settles(look)
            return False  # nobody waits with it
        if self._settling is None:
            return True
        if self._settles(look):
            return False
        self._opened_at = look.now
        return True

    def _nobody_is_left_to_come(self, look: CoordinatorLook) -> bool:
        """The open round was done by workers that are gone; or the last one was, while no coordinator was there."""
        last = self._resume_at.round + 1 >= self._settings.max_rounds
        return bool(look.counted) and (self.key is not None or last)

    def _those_returning(self, look: CoordinatorLook) -> frozenset[str]:
        """Returns those that are starting while some of the expected workers are missing; or else those that load
        again."""
        if self._settings.expected_workers is not None:
            return frozenset() if self.expected_are_there(look) else look.coming
        coming = look.coming & self._attendance.earned
        return self._returning.awaited(coming, look.now) if look.live else coming

    def expected_are_there(self, look: CoordinatorLook) -> bool:
        """All the workers that the rounds are to begin with, where somebody has said who or how many these are."""
        names, count = self._settings.expected_names, self._settings.expected_count
        return names <= look.called if names else count is None or len(look.live) >= count

    def _somebody_is_there(self, look: CoordinatorLook) -> bool:
        """Tells whether somebody is there; before the first round, where workers are expected by name, one of them."""
        names = self._settings.expected_names
        return bool(names & look.called if names and self.key is None else look.live)

    def _open(
        self, key: RoundKey, look: CoordinatorLook, reason: str, missing: frozenset[str] = frozenset()
    ) -> WriteState:
        self.key, self._settling, self._opened_at = key, None, look.now
        return WriteState(key, finished=False, reason=reason, missing=missing)

    def _advance(self, look: CoordinatorLook, reason: str, returning: frozenset[str]) -> WriteState:
        assert self.key is not None
        assert self._opened_at is not None
        missing = self._attendance.awaited(look.live | returning) - look.submitted
        not_awaited = look.live - look.submitted - missing
        self._attendance.close(look.live | returning, look.submitted)
        self._returning.round_took(look.now - self._opened_at)
        write = self._next(self.key, look, reason)
        return replace(write, missing=missing, not_awaited=not_awaited)

    def _next(self, key: RoundKey, look: CoordinatorLook, reason: str) -> WriteState:
        if key.stage + 1 < self._settings.max_stages:
            return self._open(RoundKey(key.round, key.stage + 1), look, reason)
        if key.round + 1 < self._settings.max_rounds:
            return self._open(RoundKey(key.round + 1), look, reason)
        return self._finish(reason)

    def _finish(self, reason: str) -> WriteState:
        self.finished = True
        self.key = max(self._resume_at, RoundKey(self._settings.max_rounds))  # not back, if fewer are asked for now
        return WriteState(self.key, finished=True, reason=reason)


ROUNDS = 2
"""Median rounds that a node is waited for: with its own work the round then lasts some three."""
_REMEMBERED = 32
"""Rounds of which the median is taken."""


class Returning:
    """Who loads again after a death, and how long the others wait for it.

        starting ──a live worker waits──▶ waited for ──two median rounds──▶ not waited for
                                              └────────a reward of it────────▶ forgotten: the next time counts anew

    A node that dies again before its next reward gets no more time.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        """Node -> when a live worker began to wait for it."""
        self._took: deque[float] = deque(maxlen=_REMEMBERED)

    def round_took(self, seconds: float) -> None:
        """A round is over."""
        self._took.append(seconds)

    def done(self, nodes: Set[str]) -> None:
        """Notes that these nodes have a reward for the round."""
        for node in self._since.keys() & nodes:
            del self._since[node]

    def awaited(self, coming: Set[str], now: float) -> frozenset[str]:
        """Returns those of the starting nodes that are still waited for; somebody live waits."""
        for node in coming:
            self._since.setdefault(node, now)
        longest = ROUNDS * median(self._took) if self._took else math.inf  # the interval alone bounds the wait then
        return frozenset(node for node in coming if now - self._since[node] < longest)
