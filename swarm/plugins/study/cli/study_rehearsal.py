"""The rehearsal of a study: run it, and say what it predicts before the long run begins.

StudyRecord ─▶ {path}/studies/{study}/rehearsal/: a place of its own ─Runner─▶ Rehearsal ─▶ rehearsal.json, what is said
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from swarm.cli.experiment import live_nodes
from swarm.cli.say import say
from swarm.config import Settings, with_secrets
from swarm.errors import ConfigError, ExperimentError, ProtocolError
from swarm.plugins.study.cli.study_places import Places
from swarm.plugins.study.cli.study_running import say_failed, watched
from swarm.plugins.study.record import StudyRecord, open_run, study_folder, study_store
from swarm.plugins.study.run.launch import Launcher
from swarm.plugins.study.run.matrix import stated
from swarm.plugins.study.run.rehearsal import (
    FILE,
    Observed,
    Rehearsal,
    disk_bytes,
    identity,
    observed,
    pays,
    rehearsal_of,
    whole_seconds,
)
from swarm.plugins.study.run.run_folder import progress_of_runs
from swarm.plugins.study.run.runner import StudyView
from swarm.plugins.study.run.schedule import OVER, RunState
from swarm.policy.embedded import any_embedded
from swarm.records.files import read_form
from swarm.records.first_round import advice, earned_line
from swarm.records.listing import rounds_in, size_of
from swarm.records.rows import read_metrics
from swarm.store.place import Place, open_place
from swarm.views.text import age, size
from swarm.wire import keys
from swarm.wire.codec import encode

LARGEST = 16 * 2**20
"""Bytes of what a rehearsal leaves."""


def wanted(asked: bool | None, record: StudyRecord, folder: Path) -> bool:
    """Tells whether a study is rehearsed: if asked, or by itself before a long one, so that its hours are known."""
    if asked is not None:
        return asked
    return pays(record) and not any(_rounds_done(record, folder).values())


def rehearsed(
    record: StudyRecord, folder: Path, room: Places, versions: Mapping[str, str], shared: Settings, *, anew: bool
) -> Rehearsal | int:
    """Runs a rehearsal, or takes up a former one of the same study, and returns what it shows.

    Args:
        anew: do not take up an earlier one.

    Returns:
        An exit code where it was stopped, or a run failed; that was said.

    Raises:
        ConfigError: the study has a single round.
        ExperimentError: a former one still runs.
    """
    if record.rounds < 2:
        raise ConfigError(f"a rehearsal needs a study of 2 rounds at least, got {record.rounds}: see --rounds")
    of = identity(record, room.at_once)
    if not anew and (before := _read(folder, record.study)) and before.of == of:
        return before
    place_path = study_folder(folder, record.study) / "rehearsal"
    place = open_place(place_path)
    _clear(place, place_path, shared.cadence.liveness_timeout)
    short = rehearsal_of(record, room.at_once)
    say(f"rehearsal: {len(short.runs)} runs of {short.rounds} rounds, {room.at_once} at a time; none of them counts")
    environ = with_secrets(os.environ, shared)
    launcher, clock = Launcher(short, place_path, environ, versions), _Stopwatch(time.monotonic)
    view, code = anyio.run(watched, launcher, room.at_once, shared.cadence.liveness_timeout, False, clock.see)
    clock.see(view)
    if say_failed(view, place_path) or code or len(view.those(RunState.FINISHED)) < len(view.runs):
        return code or 1
    runs = [
        _observed(place_path, run.run.experiment, run.run.configuration, clock.seconds[run.run.experiment])
        for run in view.runs
    ]
    found = observed(of, runs, room.at_once, int(stated(record)["generations"]))
    study_store(folder, record.study).put(FILE, encode(found))
    _clear(place, place_path, 0.0)  # its checkpoints may take more room than all else
    return found


def _clear(place: Place, path: Path, liveness_timeout: float) -> None:
    """Remove the runs of a former rehearsal. Raises ExperimentError: they go on."""
    there, now = place.experiments(), time.time()
    live = [name for name in there if liveness_timeout and live_nodes(open_run(path, name), now, liveness_timeout)]
    if live:
        raise ExperimentError(f"an earlier rehearsal still runs in {path} ({', '.join(live)}): wait, or end it")
    for name in there:
        place.remove(name)


class _Stopwatch:
    """Measures how long each run took, from its start to its end, as far as looks at them show."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._began: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def see(self, view: StudyView) -> None:
        """One look."""
        now = self._monotonic()
        for one in view.runs:
            name = one.run.experiment
            if one.state is RunState.RUNNING:
                self._began.setdefault(name, now)
            elif one.state in OVER:
                self.seconds.setdefault(name, now - self._began.get(name, now))


def _observed(path: Path, experiment: str, configuration: str, seconds: float) -> Observed:
    run = open_run(path, experiment)
    saved = size_of(run.store, keys.CHECKPOINTS).bytes
    rounds_saved = max(1, len(rounds_in(run.store, keys.CHECKPOINTS)))
    rows = [row for of_node in read_metrics(run).values() for row in of_node]
    return Observed(configuration, seconds, rows, saved // rounds_saved, size_of(run.store).bytes - saved)


def foreseen(record: StudyRecord, folder: Path, room: Places) -> str:
    """Returns what is said of the hours of a study that is not rehearsed now: by its rehearsal, if it had one."""
    before = _read(folder, record.study)
    if before and before.of == identity(record, room.at_once):
        return predicted(before, record, folder, room)
    return "how long it takes is said from its first rounds on; --rehearse says it before them"


def _read(folder: Path, study: str) -> Rehearsal | None:
    try:
        return read_form(study_store(folder, study), FILE, Rehearsal, LARGEST)
    except ProtocolError:
        return None


def _rounds_done(record: StudyRecord, folder: Path) -> dict[str, int]:
    return {name: progress.rounds_done for name, progress in progress_of_runs(record, folder).items()}


def predicted(found: Rehearsal, record: StudyRecord, folder: Path, room: Places) -> str:
    """Returns what is said before the long run begins."""
    least, most = whole_seconds(found, record, _rounds_done(record, folder), room.at_once)
    size_of_it = f"{len(record.runs)} runs x {record.rounds} rounds, {room.at_once} at a time"
    lines = [
        f"{record.study}: {size_of_it}: about {age(least)} to {age(most)}, by {found.rounds} rounds of each "
        "configuration",
        f"  seconds per round: {_paces(found)}",
        f"  memory: {_memory(found, room)}",
        f"  disk: {_disk(found, record, folder)}",
    ]
    if found.start:
        lines.append(f"  expected at the start: {earned_line(found.start)}")
    if found.all_rounds:
        seen = found.all_rounds
        lines.append(
            f"  in all {found.rounds} rounds: {seen.with_signal} of {seen.groups} groups with a signal, mean reward "
            f"{seen.reward.mean:.3f}, {found.last_reward:.3f} in the last one"
        )
    return "\n".join([*lines, f"  {_NOT_KNOWN}"])


_NOT_KNOWN = "longer answers than in these rounds, and other work on the machine, make it more"


def hopeless(found: Rehearsal, models: list[str]) -> str:
    """Returns advice where no group of a rehearsal had a signal; empty where some had, and for embedded models, which
    are known to learn."""
    seen = found.all_rounds
    return advice(seen, models, f"in {found.rounds} rounds") if seen and not any_embedded(models) else ""


def _paces(found: Rehearsal) -> str:
    return ", ".join(f"{name} {pace.least:.2g} to {pace.most:.2g}" for name, pace in found.paces.items())


def _memory(found: Rehearsal, room: Places) -> str:
    planned = f", {size(room.needed)} by the plan with what is beside them" if room.needed else ""
    there = f" of {size(found.memory_total)}" if found.memory_total else ""
    held = f"the nodes of a swarm held {size(found.memory_peak)} at the most" if found.memory_peak else "not known"
    return f"{held}{planned}; {room.at_once} at a time{there}"


def _disk(found: Rehearsal, record: StudyRecord, folder: Path) -> str:
    needed = disk_bytes(found, record)
    with open_place(folder).health(record.study) as health:
        free = health.folder.room().free if health.folder else None
    if free is None:
        return f"about {size(needed)} in the end"
    enough = "" if needed < free else ": too little (CHECKPOINT_KEEP=1, fewer --seeds or --rounds take less)"
    return f"about {size(needed)} in the end, {size(free)} are free{enough}"
