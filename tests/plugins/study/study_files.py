"""A study's record, and where its own files lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarm.plugins.study.record import ConfigurationRecord, StudyRecord, study_folder
from swarm.plugins.study.run.matrix import Matrix, resolve, runs_of, shared_settings
from tests.layout import Layout


def study_record(
    *configurations: ConfigurationRecord | str, study: str = "m", seeds: tuple[int, ...] = (1,), **fields: Any
) -> StudyRecord:
    """A study of two nodes and three rounds; of plain names the first is the others' baseline."""
    first = configurations[0]
    ones = tuple(
        ConfigurationRecord(name=one, settings={}, baseline="" if one == first else str(first))
        if isinstance(one, str)
        else one
        for one in configurations
    )
    base = {"title": "", "created_at": 1.0, "nodes": 2, "rounds": 3, "runs": runs_of(study, ones, seeds)}
    return StudyRecord(study=study, seeds=seeds, configurations=ones, **(base | fields))


def resolved(
    matrix: Matrix, environ: dict[str, str] | None = None, toml: Path | None = None, **flags: Any
) -> StudyRecord:
    """The record of a study that is begun with these variables, settings file and flags alone."""
    shared = shared_settings(matrix, flags, environ or {}, str(toml) if toml else None)
    return resolve(matrix, shared, judged=False, created_at=1.0, versions={})


def record_file(path: Path, study: str) -> Path:
    return study_folder(path, study) / "study.json"


def run_file(path: Path, experiment: str) -> Path:
    return Layout(path, experiment).root / "study_run.json"


def log_file(path: Path, study: str, experiment: str) -> Path:
    return study_folder(path, study) / "logs" / f"{experiment}.log"
