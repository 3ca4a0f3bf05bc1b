"""`swarm study run --rehearse`: a few rounds of each configuration say how long the study takes, and how it begins.

StudyRecord ─rehearsal_of─▶ {path}/studies/{study}/rehearsal/: a place of its own ─Runner─▶ rows ─▶ what is said

None of its runs counts, and none stays: after it the settings may still be changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import anyio
import msgspec

from swarm.cli.experiment import live_nodes
from swarm.cli.say import say
from swarm.config import Settings, with_secrets
from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.cli.study_running import say_failed, watched
from swarm.plugins.study.record import StudyRecord, open_run, study_folder
from swarm.plugins.study.run.launch import Launcher
from swarm.plugins.study.run.matrix import runs_of, stated
from swarm.plugins.study.run.schedule import RunState, seconds_of
from swarm.records.first_round import advice, earned_line, first_round
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from swarm.views.text import age
from swarm.wire.metrics import MetricsRow

ROUNDS = 10


def rehearse(
    record: StudyRecord, folder: Path, at_once: int, versions: Mapping[str, str], shared: Settings, models: list[str]
) -> int:
    """Run the first rounds of all configurations, and say what they show of the whole study.

    Args:
        at_once: swarms.
        models: of all configurations.

    Returns:
        The exit code: 1 where a run failed, or where no group had a signal, so that nothing would be learned.

    Raises:
        ConfigError: the study has a single round.
        ExperimentError: a former rehearsal still runs.
    """
    if record.rounds < 2:
        raise ConfigError(f"a rehearsal needs a study of 2 rounds at least, got {record.rounds}: see --rounds")
    path, patience = study_folder(folder, record.study) / "rehearsal", shared.cadence.liveness_timeout
    _clear(path, patience)
    short = rehearsal_of(record, at_once)
    say(f"rehearsal: {len(short.runs)} runs of {short.rounds} rounds, {at_once} at a time; none of them counts")
    launcher = Launcher(short, path, with_secrets(os.environ, shared), versions)
    view, code = anyio.run(watched, launcher, at_once, patience)
    if say_failed(view, path) or code or len(view.those(RunState.FINISHED)) < len(view.runs):
        return code or 1
    found = {run.experiment: _rows(path, run.experiment) for run in short.runs}
    _clear(path, 0.0)  # its checkpoints may take more room than all else
    by_configuration = {
        one.name: [found[run.experiment] for run in short.runs if run.configuration == one.name]
        for one in short.configurations
    }
    return say_predicted(record, by_configuration, at_once, models)


def rehearsal_of(record: StudyRecord, at_once: int) -> StudyRecord:
    """Returns the first rounds of all configurations, with as many seeds as it takes for so many swarms at a time."""
    seeds = record.seeds[: max(1, -(-at_once // len(record.configurations)))]
    runs = runs_of(record.study, record.configurations, seeds)
    return msgspec.structs.replace(record, rounds=min(ROUNDS, record.rounds), seeds=seeds, runs=runs)


def _clear(path: Path, liveness_timeout: float) -> None:
    """Remove the runs of a rehearsal. Raises ExperimentError: they go on."""
    place, now = open_place(path), time.time()
    there = place.experiments()
    live = [name for name in there if liveness_timeout and live_nodes(open_run(path, name), now, liveness_timeout)]
    if live:
        raise ExperimentError(f"an earlier rehearsal still runs in {path} ({', '.join(live)}): wait, or end it")
    for name in there:
        place.remove(name)


def _rows(path: Path, experiment: str) -> list[MetricsRow]:
    return [row for of_node in read_metrics(open_run(path, experiment)).values() for row in of_node]


def say_predicted(
    record: StudyRecord, rows: Mapping[str, Sequence[Sequence[MetricsRow]]], at_once: int, models: list[str]
) -> int:
    """Say how long the study takes, and what it begins with.

    Args:
        rows: by configuration, those of each of its runs: two rounds or more.

    Returns:
        The exit code: 1 where no group had a signal.
    """
    paces = {name: fmean(map(seconds_a_round, runs)) for name, runs in rows.items()}
    seconds = seconds_of((record.rounds * paces[run.configuration] for run in record.runs), at_once)
    say(f"{record.study}: {len(record.runs)} runs x {record.rounds} rounds, {at_once} at a time: about {age(seconds)}")
    say(f"  seconds per round: {', '.join(f'{name} {pace:.2g}' for name, pace in paces.items())}")
    say("  longer answers than in these rounds, and other work on the machine, make it more")
    every = [row for runs in rows.values() for run in runs for row in run]
    seen = first_round(every, 0, int(stated(record)["generations"]))
    if seen is None:
        return 0
    say(f"  in these rounds: {earned_line(seen)}")
    if what_to_do := advice(seen, models, "in these rounds"):
        say(what_to_do)
    return int(bool(what_to_do))


def seconds_a_round(rows: Sequence[MetricsRow]) -> float:
    """Returns the mean time from the end of a round to that of the next one, of one run."""
    ends = {number: max(row.timestamp for row in rows if row.round == number) for number in {row.round for row in rows}}
    return (ends[max(ends)] - ends[min(ends)]) / (max(ends) - min(ends))
