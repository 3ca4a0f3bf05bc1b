"""The input of a report: everything that is read from a study, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd

from swarm.errors import ConfigError
from swarm.records.files import read_exam
from swarm.study.analysis.curves import window_for
from swarm.study.record import StudyRecord, open_run, read_run, read_study
from swarm.study.report.figure_style import Look
from swarm.study.report.progress import FINISHED, progress_table
from swarm.study.tables.frames import get_study_judge_metrics, get_study_metrics
from swarm.wire.messages import ExamRow


@dataclass(frozen=True)
class Evidence:
    """A study as it lies in the shared folder at one moment."""

    record: StudyRecord
    metrics: pd.DataFrame
    """From get_study_metrics; of configurations that the record names."""
    judged: pd.DataFrame
    """From get_study_judge_metrics."""
    exams: pd.DataFrame
    """What nodes scored on one fixed set of held-out questions: one row per node, moment and task of the runs that were
    examined, the columns of ExamRow behind `configuration` and `seed`; empty without any."""
    progress: pd.DataFrame
    """From progress_table."""
    versions: Mapping[str, Mapping[str, str]]
    """Experiment -> versions that it was started with last, of those that wrote them down."""
    window: int
    """Rounds of the moving averages."""

    @property
    def look(self) -> Look:
        return Look(tuple(found.name for found in self.record.configurations))

    @property
    def finished(self) -> pd.DataFrame:
        """The metrics of the finished runs, since runs of unequal length do not compare; of all, if none is."""
        return self._of_finished(self.metrics)

    @property
    def judged_finished(self) -> pd.DataFrame:
        """Likewise what the judge asked."""
        return self._of_finished(self.judged)

    def _of_finished(self, rows: pd.DataFrame) -> pd.DataFrame:
        runs = self.progress.loc[self.progress["state"] == FINISHED, "experiment"]
        return rows[rows["experiment"].isin(runs)] if len(runs) else rows

    @property
    def command(self) -> str:
        """What writes this report again."""
        return f"swarm study report {self.record.study} --window {self.window}"


def read_evidence(path: Path, study: str, window: int | None) -> Evidence:
    """Read a study.

    Args:
        path: the shared folder.
        study: its name.
        window: rounds of the moving averages; None: a tenth of the rounds, at most 100.

    Raises:
        StoreError: there is no such study.
        ConfigError: none of its runs has a round yet, or the window is not positive.
        ProtocolError: the exam of a run is there and is not a list of such rows.
    """
    if window is not None and window < 1:
        raise ConfigError(f"a moving average needs a window of at least 1 round, got {window}")
    record = read_study(path, study)
    metrics = get_study_metrics(path, study)
    if metrics.empty:
        raise ConfigError(f"there is nothing to report: no run of the study {study!r} in {path} has done a round yet")
    return Evidence(
        record=record,
        metrics=metrics,
        judged=get_study_judge_metrics(path, study),
        exams=_exams(path, record),
        progress=progress_table(record, metrics),
        versions={run.experiment: file.versions for run in record.runs if (file := read_run(path, run.experiment))},
        window=window or window_for(record.rounds),
    )


def _exams(path: Path, record: StudyRecord) -> pd.DataFrame:
    rows = [
        {"configuration": run.configuration, "seed": run.seed} | msgspec.structs.asdict(row)
        for run in record.runs
        for row in read_exam(open_run(path, run.experiment))
    ]
    return pd.DataFrame(rows, columns=["configuration", "seed", *ExamRow.__struct_fields__])
