"""Is the round clock readable, ours, and in step with the rewards?"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from swarm.records.read import read_state_or_problem
from swarm.store.folder.fetch import list_names, list_numbered
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.text import shorten
from swarm.wire.layout import Layout, round_of
from swarm.wire.messages import StateFile

AREA = Area("state")
AHEAD_TOLERATED = 2
"""Rounds without any reward before the open one: in a short one it may be that nobody was quick enough."""


class ClockFile(msgspec.Struct, frozen=True):
    """The state file and the rewards beside it."""

    state: StateFile | None
    problem: str
    """Why it cannot be read."""
    last_rewarded: int
    """The newest round with a reward, -1 for none."""


def check(context: CheckContext) -> Iterator[Finding]:
    """The state file."""
    if context.there:
        alive = bool(context.watched.alive("worker"))
        found = measure(context.layout)
        yield from judge(found, context.layout.experiment, wanted=context.wants_coordinator, workers_alive=alive)


def measure(layout: Layout) -> ClockFile:
    """Look for rewards, then read it: in this order, a round that opens meanwhile is no contradiction."""
    rounds = reversed(list_numbered(layout.rewards, round_of))
    rewarded = (r for r in rounds for stage in list_names(layout.rewards / f"round_{r}") if _any(layout, r, stage))
    last_rewarded = next(rewarded, -1)
    state, problem = read_state_or_problem(layout)
    return ClockFile(state, problem, last_rewarded)


def _any(layout: Layout, round_: int, stage: str) -> bool:
    folder = layout.rewards / f"round_{round_}" / stage
    return folder.is_dir() and bool(list_names(folder))


def judge(found: ClockFile, experiment: str, *, wanted: bool, workers_alive: bool) -> Iterator[Finding]:
    """What is wrong with it."""
    state = found.state
    restore = (
        "start the coordinator (swarm node --role coordinator): it restores the file from the rounds in the folder"
    )
    if found.problem:
        yield AREA.failure("clock", shorten(found.problem, 200), restore)
    elif state is None and wanted and found.last_rewarded >= 0:
        yield AREA.failure("clock", f"no state file, yet there are rewards of round {found.last_rewarded}", restore)
    elif state is None:
        yield AREA.ok("clock", "not started yet" if wanted else "none: every node is on its own clock")
    elif state.experiment_name != experiment:
        fix = "the folder was copied or renamed: give it back its name, or begin a new --experiment"
        yield AREA.failure("clock", f"of experiment {shorten(state.experiment_name, 64)!r}", fix)
    else:
        yield _in_step(state, found.last_rewarded, workers_alive=workers_alive)


def _in_step(state: StateFile, last_rewarded: int, *, workers_alive: bool) -> Finding:
    measured = f"round {state.round} of {state.max_rounds or '?'}, newest reward of round {last_rewarded}"
    if last_rewarded > state.round:
        fix = "workers went on without a coordinator: nothing is lost, and one that is started goes to where they are"
        return AREA.warning("clock", f"behind the rewards: {measured}", fix)
    if workers_alive and not state.finished and state.round - last_rewarded > 1 + AHEAD_TOLERATED:
        fix = "raise COORDINATOR_ROUND_INTERVAL: rounds close before anybody submits (see `swarm logs --level warning`)"
        return AREA.warning("clock", f"ahead of the rewards: {measured}", fix)
    return AREA.ok("clock", measured)
