"""Answers what the core asks of studies: swarm.views.studies.StudyReader, registered in `swarm.report`."""

from __future__ import annotations

from pathlib import Path

from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.plugins.study.frames import study_frame as frame
from swarm.plugins.study.record import open_run, read_study
from swarm.plugins.study.record import studies as names
from swarm.plugins.study.run.matrix import run_settings
from swarm.plugins.study.run.run_folder import is_finished
from swarm.views.studies import StudyContents

__all__ = ["contents", "finished_runs", "frame", "names"]


def contents(place: Path, study: str) -> StudyContents:
    """Returns which runs a study has. Raises as read_study does."""
    record = read_study(place, study)
    return StudyContents(
        record.title,
        record.rounds,
        tuple(one.name for one in record.configurations),
        tuple((run.configuration, run.experiment) for run in record.runs),
    )


def finished_runs(settings: Settings, study: str) -> list[Settings]:
    """Returns the settings of each finished run.

    Raises:
        ExperimentError: there is no such study, or none of its runs is finished.
        ProtocolError: its record is not readable.
    """
    path = settings.shared_folder
    record = read_study(path, study)
    finished = [run for run in record.runs if is_finished(open_run(path, run.experiment), record.rounds)]
    if not finished:
        raise ExperimentError(f"study {study!r}: no run is finished; run it with `swarm study run`")
    return [run_settings(record, run, path, hub_token=settings.hub_token) for run in finished]
