"""Decides what a judge takes for the round clock. Pure.

    a few rounds further than before ─▶ taken at once
    a jump, an end, or a step back   ─▶ taken once it has stayed for `settle` seconds
    what no coordinator can write    ─▶ not taken

One write of the state file is a moment's work of any stranger, and would blind a judge or end it; a coordinator that
lives writes over what it has not written. Who writes it again and again, without signatures, can still lead it astray.
"""

from __future__ import annotations

from typing import NamedTuple

from swarm.records.finished import can_be_written
from swarm.wire.messages import StateFile

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
