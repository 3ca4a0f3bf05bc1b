"""Order of the runs of a study, and an estimate of the time left. Pure: it owns no process, clock or file.

    waiting ─start_next─▶ running ─ended─▶ finished | failed; waiting again if it was asked to stop
    elsewhere ─ended─▶ finished | waiting          a swarm that an earlier, killed study left behind

A failed run is left alone, so that one cause is not met again and again; the next `study run` tries it again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum


class RunState(StrEnum):
    """Says where a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    ELSEWHERE = "elsewhere"
    FINISHED = "finished"
    FAILED = "failed"


OVER = (RunState.FINISHED, RunState.FAILED)
"""States of a run that is not started again by this study."""


class Schedule:
    """Hands out each run once, in the order given, never more than `jobs` at a time."""

    def __init__(
        self, experiments: Sequence[str], jobs: int, *, finished: Collection[str] = (), elsewhere: Collection[str] = ()
    ) -> None:
        """`finished` runs are skipped; those `elsewhere` take a place until they end."""
        self._jobs = jobs
        self._stopped = False
        self.states = {
            name: RunState.FINISHED
            if name in finished
            else RunState.ELSEWHERE
            if name in elsewhere
            else RunState.WAITING
            for name in experiments
        }

    def start_next(self) -> list[str]:
        """Returns the runs to start now; from here on they are running."""
        if self._stopped:
            return []
        free = max(0, self._jobs - len(self.running) - len(self.those(RunState.ELSEWHERE)))
        chosen = self.those(RunState.WAITING)[:free]
        self.states |= dict.fromkeys(chosen, RunState.RUNNING)
        return chosen

    def ended(self, experiment: str, *, finished: bool) -> None:
        """A running run, or one elsewhere, has ended; `finished` if all its rounds are done."""
        before = self.states[experiment]
        if before not in (RunState.RUNNING, RunState.ELSEWHERE):
            raise ValueError(f"{experiment} ended, but it was {before}")
        if finished:
            self.states[experiment] = RunState.FINISHED
        elif before is RunState.ELSEWHERE or self._stopped:
            self.states[experiment] = RunState.WAITING
        else:
            self.states[experiment] = RunState.FAILED

    def stop(self) -> None:
        """Start nothing more."""
        self._stopped = True

    @property
    def running(self) -> list[str]:
        return self.those(RunState.RUNNING)

    @property
    def over(self) -> bool:
        """Tells whether nothing runs, and nothing will be started."""
        if self._stopped:
            return not self.running
        return not {RunState.WAITING, RunState.RUNNING, RunState.ELSEWHERE} & set(self.states.values())

    def those(self, state: RunState) -> list[str]:
        """Returns the runs in a state, in order."""
        return [name for name, now in self.states.items() if now is state]


def seconds_left(rounds_left: Sequence[int], rounds_per_second: float, jobs: int) -> float | None:
    """Returns seconds until all runs are done, if each goes on at one pace and the next begins wherever a place is
    free.

    Args:
        rounds_left: of each run that is not done, in the order in which they are started.
        rounds_per_second: of one run while it runs, its start-up included; 0: not known yet.

    Returns:
        None where nothing is known yet.
    """
    if not any(rounds_left):
        return 0.0
    if rounds_per_second <= 0:
        return None
    return seconds_of([rounds / rounds_per_second for rounds in rounds_left], jobs)


def seconds_of(runs: Iterable[float], jobs: int) -> float:
    """Returns seconds until runs of these lengths are done, if the next begins wherever a place is free."""
    free_at = [0.0] * jobs
    for seconds in runs:
        heapq.heapreplace(free_at, free_at[0] + seconds)
    return max(free_at)
