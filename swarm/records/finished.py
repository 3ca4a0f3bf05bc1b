"""Decides whether a run is over, by whom, how far it is, and why its clock stands: the rules, as pure functions.

clock says finished                                        ─▶ finished, by its coordinator
every worker's last life ended finished, all after the same number of rounds
                                                           ─▶ finished, by its workers: on clocks of their own, or
                                                              gone on alone after their coordinator had died
else                                                       ─▶ not finished: it goes on, was stopped, or was killed
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from swarm.records.events import FINISHED, Ending
from swarm.wire.messages import StateFile

BY_COORDINATOR, BY_WORKERS = "coordinator", "workers"


class Finished(NamedTuple):
    """A run that is over."""

    rounds: int
    by: str
    """BY_COORDINATOR or BY_WORKERS."""


def finished(state: StateFile | None, of_workers: Iterable[Ending | None]) -> Finished | None:
    """Returns the verdict, None for a run that is not over.

    Args:
        state: the coordinator's clock, None where there is none that can be read.
        of_workers: how the last life of each worker ended; after one that has not finished no more are asked for.
    """
    if state is not None and state.finished:
        return Finished(state.round, BY_COORDINATOR)
    ends: set[int] = set()
    for end in of_workers:
        if end is None or end.how != FINISHED or end.rounds_done is None:
            return None
        ends.add(end.rounds_done)
    return Finished(ends.pop(), BY_WORKERS) if len(ends) == 1 else None


def rounds_done(state: StateFile | None, on_own_clocks: Iterable[int], of_others: Iterable[int]) -> int:
    """Returns rounds behind the run: by its clock, and by those who went further without it.

    Args:
        on_own_clocks: rounds behind each worker that opened any by itself.
        of_others: rounds behind all nodes; they count where there is no clock at all.
    """
    furthest = max(on_own_clocks, default=0)
    if state is not None:
        return max(state.round, furthest)
    return furthest or max(of_others, default=0)


def rounds_expected(state: StateFile | None, over: Finished | None) -> int | None:
    """Returns how many rounds there will be; None while nobody has said."""
    if over is not None and over.by == BY_WORKERS:
        return over.rounds
    return (state.max_rounds or None) if state is not None else None


def can_be_written(state: StateFile) -> bool:
    """A coordinator opens the rounds before the last one, and ends after it; 0: it does not say which that is.

    One that came back where all was done holds the clock there until it has looked.
    """
    if state.finished:
        return state.round >= max(1, state.max_rounds)
    return state.held or state.max_rounds == 0 or state.round < state.max_rounds


NO_WORKERS, ONLY_STARTING, NO_REWARDS = "stands_no_workers", "stands_starting", "stands_no_rewards"
"""What a coordinator gives as its phase."""
IN_WORDS = {
    NO_WORKERS: "no worker is alive: start one (`swarm join`), the rounds go on with it",
    ONLY_STARTING: "every worker that is alive is still starting",
    NO_REWARDS: "workers are alive, and none has published a round lately: their logs say why (`swarm logs`)",
}


def why_it_stands(
    *, live: Collection[str], coming: Collection[str], overdue: bool, somebody_counts: bool, first_rounds: bool
) -> str:
    """Returns the phase that says why an open round does not end; empty: nothing keeps it.

    Args:
        live: workers that take part.
        coming: workers that are starting.
        overdue: it has been open for the whole interval.
        somebody_counts: a reward that counts came for it, or for one of the rounds before it.
        first_rounds: it is one of those that end without a reward.
    """
    if somebody_counts or live:
        return NO_REWARDS if overdue and live and not somebody_counts and not first_rounds else ""
    return ONLY_STARTING if coming else NO_WORKERS
