"""Checks of the round clock, of the checkpoints that nodes would resume from, and of the ends of their logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from swarm.errors import ProtocolError
from swarm.records.files import WatchedClock, read_clock, read_form
from swarm.records.listing import count_stage, entries, rounds_in, saved_rounds
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.views.text import shorten
from swarm.wire import keys
from swarm.wire.messages import NodeState, StateFile

STATE, SAVED = Area("state"), Area("saved")
AHEAD_TOLERATED = 2
"""Rounds without any reward before the open one: in a short one it may be that nobody was quick enough."""
LARGEST_STATE, LARGEST_MANIFEST = 2**20, 16 * 2**20


class ClockFile(NamedTuple):
    """The round clock, and the rewards beside it."""

    clock: WatchedClock
    last_rewarded: int
    """The newest round with a reward, -1 for none."""


class _Stamp(msgspec.Struct):
    bytes: int


class _Manifest(msgspec.Struct):
    """The few columns of a checkpoint's manifest.json that tell whether it is all there."""

    files: dict[str, _Stamp]


def check_state(context: CheckContext) -> Iterator[Finding]:
    """The round clock is readable, of this experiment, and in step with the rewards."""
    if context.run:
        alive = bool(context.watched.alive("worker"))
        found = measure_state(context.run)
        yield judge_state(found, context.run.experiment, wanted=context.wants_coordinator, workers_alive=alive)


def measure_state(run: Run) -> ClockFile:
    """Look for rewards, then read it: in this order, a round that opens meanwhile is no contradiction."""
    last_rewarded = next((r for r in reversed(rounds_in(run.store, keys.REWARDS)) if _is_rewarded(run, r)), -1)
    return ClockFile(read_clock(run), last_rewarded)


def _is_rewarded(run: Run, round_: int) -> bool:
    of_round = f"{keys.REWARDS}/round_{round_}"
    stages = [entry.name for entry in entries(run.store, of_round) if entry.kind is Kind.PREFIX]
    return any(count_stage(run.store, f"{of_round}/{stage}")[0] for stage in stages)


def judge_state(found: ClockFile, experiment: str, *, wanted: bool, workers_alive: bool) -> Finding:
    """Judges the state file: its form, its experiment, and whether it keeps step with the rewards."""
    state, problem = found.clock
    restore = (
        "start the coordinator (swarm node --role coordinator): it restores the file from the rounds in the folder"
    )
    if problem:
        return STATE.failure("clock", shorten(problem, 200), restore)
    if state is None and wanted and found.last_rewarded >= 0:
        return STATE.failure("clock", f"no state file, yet there are rewards of round {found.last_rewarded}", restore)
    if state is None:
        return STATE.ok("clock", "not started yet" if wanted else "none: every node is on its own clock")
    if state.experiment_name != experiment:
        fix = "the folder was copied or renamed: give it back its name, or begin a new --experiment"
        return STATE.failure("clock", f"of experiment {shorten(state.experiment_name, 64)!r}", fix)
    return _in_step(state, found.last_rewarded, workers_alive=workers_alive)


def _in_step(state: StateFile, last_rewarded: int, *, workers_alive: bool) -> Finding:
    measured = f"{state.round}/{state.max_rounds or '?'} rounds done, newest reward of round {last_rewarded}"
    if last_rewarded > state.round:
        fix = "workers went on without a coordinator: nothing is lost, and one that is started goes to where they are"
        return STATE.warning("clock", f"behind the rewards: {measured}", fix)
    if workers_alive and not state.finished and state.round - last_rewarded > 1 + AHEAD_TOLERATED:
        fix = "raise COORDINATOR_ROUND_INTERVAL: rounds close before anybody submits (see `swarm logs --level warning`)"
        return STATE.warning("clock", f"ahead of the rewards: {measured}", fix)
    return STATE.ok("clock", measured)


def check_saved(context: CheckContext) -> Iterator[Finding]:
    """Checkpoints and the ends of logs."""
    if context.run:
        yield from judge_checkpoints(measure_checkpoints(context.run))
        yield judge_ends({node for node, log in context.logs.items() if log.torn} - context.alive)


def measure_checkpoints(run: Run) -> dict[str, list[str]]:
    """Returns node -> what is wrong with each of its checkpoints, newest first; an empty text for a sound one."""
    saved = saved_rounds(run).items()
    return {node: [damage(run, keys.checkpoint(r, node)) for r in reversed(rounds)] for node, rounds in saved}


def damage(run: Run, checkpoint: str) -> str:
    """Returns what is wrong with a checkpoint, empty if nothing; sizes are compared, hashes are not."""
    store = run.store
    where = store.describe(checkpoint)
    try:
        if read_form(store, f"{checkpoint}/node.json", NodeState, LARGEST_STATE) is None:
            return f"{where}: node.json is missing"
        manifest = read_form(store, f"{checkpoint}/manifest.json", _Manifest, LARGEST_MANIFEST)
        if manifest is None:
            return f"{where}: manifest.json is missing"
        for name, stamp in manifest.files.items():
            file = f"{checkpoint}/{name}"
            entry = store.stat(file)
            if entry is None or entry.kind is not Kind.FILE:
                return f"{store.describe(file)} is missing"
            if entry.size != stamp.bytes:
                return f"{store.describe(file)} has {entry.size} bytes, expected {stamp.bytes}"
    except (ProtocolError, ValueError) as error:  # a manifest may name what is no key
        return f"{where}: {error}"
    return ""


def judge_checkpoints(checkpoints: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yields the damages as findings."""
    newest = {node: problems[0] for node, problems in checkpoints.items() if problems[0]}
    older = [p for node, problems in checkpoints.items() if node not in newest for p in problems[1:] if p]
    for problem in newest.values():
        fix = "move that folder away: the node goes on from the one before, or begins anew"
        yield SAVED.failure("checkpoint", shorten(problem, 240), fix)
    for problem in older:
        yield SAVED.warning("older checkpoint", shorten(problem, 240), "delete that folder; the node has a newer one")
    if not newest and not older:
        total = sum(map(len, checkpoints.values()))
        yield SAVED.ok("checkpoints", f"{total} of {len(checkpoints)} nodes, all files there in full length")


def judge_ends(torn: set[str]) -> Finding:
    """Nodes whose logs end within a line, and that are not there to go on with it."""
    if not torn:
        return SAVED.ok("ends of logs", "every log ends with a whole line")
    fix = "start these nodes again, which closes the line; if they stay away, remove what follows the last newline"
    return SAVED.warning("ends of logs", f"a last line without its end: {shorten(', '.join(sorted(torn)), 120)}", fix)
