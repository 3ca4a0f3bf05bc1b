"""Reuses finished runs of other studies in the same folder that had the same settings.

What a run computes follows from its settings, its number of nodes and the versions of the libraries; all of these are
written down with it. So two studies may share runs, such as the fixed splits that an adaptive rule is held against.
A model that is a local folder counts as the same while no file in it is younger than the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from swarm.store.place import open_place
from swarm.study.record import RunFile, RunRecord, StudyRecord, open_run, read_run
from swarm.study.run.matrix import as_recorded, run_settings
from swarm.study.run.run_folder import is_finished

_NAMES = ("experiment", "path")
"""Settings that say where a run is, not what it computes."""


def with_finished_elsewhere(record: StudyRecord, path: Path) -> StudyRecord:
    """The study with runs that are not begun pointing to experiments of other studies that are the same runs."""
    there = open_place(path).experiments()
    others = [name for name in there if name not in {run.experiment for run in record.runs}]
    known = [file for name in others if (file := read_run(path, name)) and file.experiment == name]
    runs = tuple(run if run.experiment in there else _found(record, run, known, path) for run in record.runs)
    return msgspec.structs.replace(record, runs=runs)


def _found(record: StudyRecord, run: RunRecord, known: list[RunFile], path: Path) -> RunRecord:
    wanted = _computed(as_recorded(run_settings(record, run, path)))
    for file in known:
        around = (file.nodes, file.judged, file.versions) == (record.nodes, record.judged, record.versions)
        same = around and _computed(file.settings) == wanted
        if same and _models_as_then(file) and is_finished(open_run(path, file.experiment), record.rounds):
            return msgspec.structs.replace(run, experiment=file.experiment)
    return run


def _models_as_then(file: RunFile) -> bool:
    """No local model was changed after the run had begun."""
    folders = [Path(name).expanduser() for name in file.settings["model"]]
    inside = (found for folder in folders for found in folder.rglob("*") if found.is_file())
    return all(found.stat().st_mtime < file.started_at for found in inside)


def _computed(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _NAMES}
