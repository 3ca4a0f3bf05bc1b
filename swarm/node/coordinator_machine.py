"""The coordinator's decisions, pure: looks at the folder in, state files out.

        waiting for workers ──enough, or one interval after the first──▶ open(R, S) ──advance──▶ ... ──▶ finished

    open(R, S) waits for: the reward of every live worker, or the end of the interval with any worker there
    open(R, S) unblocks:  the workers, which wait for the state file to move on

The clock never goes back, and it stands still while nobody is there: an empty room burns no rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.types import RoundKey


@dataclass(frozen=True)
class Look:
    """What the folder showed at one moment."""

    now: float
    """Seconds on this process's monotonic clock."""
    live: frozenset[str]
    """Workers that are alive and take part."""
    submitted: frozenset[str]
    """Nodes whose reward for the open round and stage lies there."""


@dataclass(frozen=True)
class WriteState:
    """Publish the state file; everything later waits until it is there."""

    key: RoundKey
    finished: bool
    reason: str
    """Why the clock moved: `opened`, `all_submitted`, `interval`, `done`."""
    missing: frozenset[str] = frozenset()
    """Live workers that had not submitted."""


class CoordinatorMachine:
    """Owns the round clock; owns no file, task or time."""

    def __init__(self, *, max_rounds: int, max_stages: int, interval: float, expected_workers: int) -> None:
        self._max_rounds = max_rounds
        self._max_stages = max_stages
        self._interval = interval
        self._expected = expected_workers
        self.key: RoundKey | None = None
        """The open round and stage; None before the first."""
        self.finished = False
        self._resume_at = RoundKey(0)
        self._opened_at: float | None = None

    def resume(self, key: RoundKey) -> WriteState | None:
        """Take over where the folder says; called once, before the first look.

        Returns:
            The finished state if there is no round left to run, else None.
        """
        self._resume_at = key
        if key.round >= self._max_rounds:
            return self._finish("done")
        return None

    def handle(self, look: Look) -> WriteState | None:
        """Decide on one look: move the clock by one step or leave it."""
        if self.finished:
            return None
        if not look.live and not (self.key and look.submitted):
            self._opened_at = None  # the interval counts from when somebody is there
            return None
        if self._opened_at is None:
            self._opened_at = look.now
        overdue = look.now - self._opened_at >= self._interval
        if self.key is None:
            return self._open(self._resume_at, look, "opened") if overdue or self._enough(look) else None
        missing = look.live - look.submitted
        if not missing:
            return self._advance(look, missing, "all_submitted")
        return self._advance(look, missing, "interval") if overdue else None

    def _enough(self, look: Look) -> bool:
        return len(look.live) >= self._expected

    def _open(self, key: RoundKey, look: Look, reason: str, missing: frozenset[str] = frozenset()) -> WriteState:
        self.key = key
        self._opened_at = look.now
        return WriteState(key, finished=False, reason=reason, missing=missing)

    def _advance(self, look: Look, missing: frozenset[str], reason: str) -> WriteState:
        assert self.key is not None
        if self.key.stage + 1 < self._max_stages:
            return self._open(RoundKey(self.key.round, self.key.stage + 1), look, reason, missing)
        if self.key.round + 1 < self._max_rounds:
            return self._open(RoundKey(self.key.round + 1), look, reason, missing)
        return self._finish(reason, missing)

    def _finish(self, reason: str, missing: frozenset[str] = frozenset()) -> WriteState:
        self.finished = True
        self.key = max(self._resume_at, RoundKey(self._max_rounds))  # not back, where fewer rounds are asked for now
        return WriteState(self.key, finished=True, reason=reason, missing=missing)
