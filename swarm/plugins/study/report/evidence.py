"""The input of a report: a study's per-seed tables, one row per run, or per run and round, task or node.

shared folder ─read_evidence─▶ Evidence ◀─read_tables─ committed tables      (seed_tables.py)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from msgspec import UNSET

from swarm.errors import ConfigError, ProtocolError
from swarm.plugins.study.analysis.by_model import rewards_by_model
from swarm.plugins.study.analysis.comparisons import comparison_table, declared_table, factors_table
from swarm.plugins.study.analysis.curves import RUN, first_seeds, window_for
from swarm.plugins.study.analysis.judged import pass_at_1
from swarm.plugins.study.analysis.learned import by_knowledge, taught
from swarm.plugins.study.analysis.measures import agent_average, as_of_equal_sizes, by_task, totals
from swarm.plugins.study.analysis.planted import planted_by_round
from swarm.plugins.study.analysis.propagation import crossings, learners, possible
from swarm.plugins.study.analysis.splits import splits_by_round
from swarm.plugins.study.frames import get_study_judge_metrics, get_study_metrics
from swarm.plugins.study.record import StudyRecord, open_run, read_run, read_study
from swarm.records.files import read_exam
from swarm.views.tables.frames import get_rollouts
from swarm.wire.judge_messages import ExamRow

FINISHED = "finished"
DIGITS = 9
"""Decimals of the curves over rounds, which make up most of the tables."""

NONE = pd.DataFrame()
"""What a study has of a kind that it does not have."""


@dataclass(frozen=True)
class Evidence:
    """A study at one moment, as tables with a column `configuration` and a column `seed`.

    Runs that count are the finished ones, since runs of unequal length do not compare; all, while none is finished.
    """

    record: StudyRecord
    window: int
    """Rounds of the moving averages."""
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per planned run: the columns of progress_table and totals, `possible` crossings, and `other_versions`:
    how what it was started with differs from what the study was begun with; sums over nodes as of equal sizes."""
    rounds: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run and round: from agent_average, as of equal sizes (as_of_equal_sizes)."""
    agents: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Reward of each node in each round of the first seed of each configuration."""
    tasks: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run that counts and task: from by_task."""
    crossings: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Crossings of the runs that count."""
    learners: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Learners of the runs that count."""
    held_out: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run that counts and window of rounds: pass_at_1 of what the judge asked; empty without a judge."""
    exams: pd.DataFrame = field(default_factory=pd.DataFrame)
    """What nodes scored on one fixed set of held-out questions: one row per node, moment and task of the runs that were
    examined, the columns of ExamRow behind `configuration` and `seed`; empty without any."""
    knowledge: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run that counts, round and `whose`: from by_knowledge; empty without specialists."""
    taught: pd.DataFrame = field(default_factory=pd.DataFrame)
    """From swarm.plugins.study.analysis.learned.taught, of the runs that count; empty without specialists."""
    models: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run that counts and model: from rewards_by_model; empty where no swarm mixes models."""
    planted: pd.DataFrame = field(default_factory=pd.DataFrame)
    """From planted_by_round, of the runs that count; empty where nobody plants words."""
    splits: pd.DataFrame = field(default_factory=pd.DataFrame)
    """From splits_by_round, of the runs that count; empty where no configuration adapts."""
    source: str = ""
    """What `swarm study report` is to be given to write this again."""

    @cached_property
    def configurations(self) -> tuple[str, ...]:
        """Returns the names of the configurations, in the study's order."""
        return tuple(found.name for found in self.record.configurations)

    @cached_property
    def counted(self) -> pd.DataFrame:
        """Returns the runs that count."""
        return counted(self.runs)

    @cached_property
    def counted_rounds(self) -> pd.DataFrame:
        """Returns the rounds of the runs that count."""
        return of_runs(self.rounds, self.counted)

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Returns every configuration with finished runs beside its baseline."""
        return comparison_table(self.runs, self.record)

    @cached_property
    def declared(self) -> pd.DataFrame:
        """Returns what was declared before the runs, with its tests."""
        return declared_table(self.runs, self.record)

    @cached_property
    def factors(self) -> pd.DataFrame:
        """Returns by what format and content differ from the baseline's."""
        return factors_table(self.runs, self.record)

    @property
    def command(self) -> str:
        """Returns the command that writes this report again."""
        return f"swarm study report {self.source or self.record.study} --window {self.window}"


def counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the finished ones, or all that have begun, while none is finished."""
    finished = runs["state"] == FINISHED
    return runs[finished if finished.any() else runs["rounds"] > 0]


def of_runs(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of these runs."""
    return rows[rows["experiment"].isin(runs["experiment"])]


def read_evidence(path: Path, study: str, window: int | None) -> Evidence:
    """Read a study.

    Args:
        path: the shared folder.
        study: its name.
        window: rounds of the moving averages; None: a tenth of the rounds, at most 100.

    Raises:
        ExperimentError: there is no such study.
        ConfigError: none of its runs has a round yet, or the window is not positive.
        ProtocolError: the exam of a run is there and is not a list of such rows.
    """
    record = read_study(path, study)
    window = checked_window(window, record)
    metrics = get_study_metrics(path, study)
    if metrics.empty:
        raise ConfigError(f"there is nothing to report: no run of the study {study!r} in {path} has done a round yet")
    runs = _runs(path, record, metrics)
    rows = of_runs(metrics, counted(runs))
    crossed = crossings(rows)
    return Evidence(
        record=record,
        window=window,
        runs=runs,
        rounds=as_of_equal_sizes(agent_average(metrics), record).round(DIGITS),
        agents=first_seeds(metrics)[["configuration", "seed", "round", "node_id", "my_reward"]].round(DIGITS),
        tasks=by_task(rows),
        crossings=crossed,
        learners=learners(rows, crossed),
        held_out=pass_at_1(of_runs(get_study_judge_metrics(path, study), counted(runs))),
        exams=_exams(path, record),
        knowledge=by_knowledge(rows).round(DIGITS),
        taught=taught(rows, crossed),
        models=rewards_by_model(rows),
        planted=planted_by_round(record, rows, partial(get_rollouts, path)).round(DIGITS),
        splits=splits_by_round(rows).round(DIGITS),
    )


def checked_window(window: int | None, record: StudyRecord) -> int:
    """Returns the rounds of the moving averages. Raises ConfigError for less than one."""
    if window is not None and window < 1:
        raise ConfigError(f"a moving average needs a window of at least 1 round, got {window}")
    return window or window_for(record.rounds)


def _runs(path: Path, record: StudyRecord, metrics: pd.DataFrame) -> pd.DataFrame:
    runs = progress_table(record, metrics).merge(totals(metrics).drop(columns="rounds"), on=RUN, how="left")
    runs = as_of_equal_sizes(runs, record)
    runs = runs.merge(possible(metrics).rename("possible").reset_index(), on=RUN, how="left").fillna({"possible": 0})
    return runs.assign(other_versions=[_other_versions(path, record, name) for name in runs["experiment"]])


def _other_versions(path: Path, record: StudyRecord, experiment: str) -> str:
    """Says in which versions a run differs from those the study was begun with; empty for none, or an unknown run."""
    file = read_run(path, experiment)
    if file is None:
        return ""
    begun_with, own = record.versions, file.versions
    changed = [name for name in {**begun_with, **own} if own.get(name) != begun_with.get(name)]
    return ", ".join(f"{name} {own.get(name, 'none')}, not {begun_with.get(name, 'none')}" for name in changed)


def _exams(path: Path, record: StudyRecord) -> pd.DataFrame:
    """Reads the exams of all runs; nothing of a file that is none: anybody may have put it there."""
    rows: list[dict[str, Any]] = []
    for run in record.runs:
        with suppress(ProtocolError):
            for row in map(msgspec.structs.asdict, read_exam(open_run(path, run.experiment))):
                known = {name: None if value is UNSET else value for name, value in row.items()}
                named = {"configuration": run.configuration, "seed": run.seed}
                rows.append(named | known | {"stage": known["stage"] or 0})
    return pd.DataFrame(rows, columns=["configuration", "seed", *ExamRow.__struct_fields__])


def progress_table(record: StudyRecord, metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per planned run: the rounds that it has rows of, and how many rows are missing or too many in
    these."""
    rows_by_round = {str(name): rows.groupby("round").size() for name, rows in metrics.groupby("experiment")}
    found = []
    for run in record.runs:
        rows = rows_by_round.get(run.experiment, pd.Series(dtype="int64"))
        done, beyond = len(rows), rows - record.nodes_of(run.configuration)
        state = FINISHED if done >= record.rounds else "unfinished" if done else "not begun"
        missing, more = int(-beyond.clip(upper=0).sum()), int(beyond.clip(lower=0).sum())
        found.append((run.configuration, run.seed, run.experiment, done, record.rounds, missing, more, state))
    return pd.DataFrame(found, columns=[*RUN, "rounds", "planned", "rows_missing", "rows_beyond", "state"])
