"""Where a study's own files lie."""

from __future__ import annotations

from pathlib import Path

from swarm.plugins.study.record import study_folder
from tests.layout import Layout


def record_file(path: Path, study: str) -> Path:
    return study_folder(path, study) / "study.json"


def run_file(path: Path, experiment: str) -> Path:
    return Layout(path, experiment).root / "study_run.json"


def log_file(path: Path, study: str, experiment: str) -> Path:
    return study_folder(path, study) / "logs" / f"{experiment}.log"
