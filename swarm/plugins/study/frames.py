"""The frames of all runs of a study, with the columns that say which run a row belongs to in front."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swarm.plugins.study.record import open_run, read_study
from swarm.views.tables.columns import RUN
from swarm.views.tables.frames import TABLES, FrameKind, frame_of

if TYPE_CHECKING:
    from pandas import DataFrame


def get_study_metrics(path: Path | str, study: str) -> DataFrame:
    """Returns the metrics of all runs of a study, with `configuration`, `seed` and `experiment` in front.

    Runs are in the order of the study's record; those without a row yet are absent.

    Raises:
        ExperimentError: there is no such study; says which there are.
        ProtocolError: its record cannot be read.
        ConfigError: pandas is not installed.
    """
    return study_frame(path, study, TABLES["metrics"])


def get_study_rollout_files(path: Path | str, study: str) -> DataFrame:
    """The numbers of files of all runs of a study, with three columns in front. Raises as get_study_metrics does."""
    return study_frame(path, study, TABLES["rollout_files"])


def get_study_judge_metrics(path: Path | str, study: str) -> DataFrame:
    """Returns the judge's rows of all runs of a study, three columns in front. Raises as get_study_metrics does."""
    return study_frame(path, study, TABLES["judge"])


def study_frame(path: Path | str, study: str, table: FrameKind) -> DataFrame:
    """Returns one table of all runs of a study, with three columns in front. Raises as get_study_metrics does.

    A run that it shares with another study may go on for that one's sake: rounds beyond the study's own are left out.
    """
    record = read_study(Path(path), study)
    found = (
        row | {"configuration": run.configuration, "seed": run.seed, "experiment": run.experiment}
        for run in record.runs
        for row in table.read(open_run(Path(path), run.experiment))
        if row["round"] is None or row["round"] < record.rounds
    )
    return frame_of(found, RUN | table.columns)
