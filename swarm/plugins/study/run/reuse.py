"""Reuses finished runs of other studies in the same folder that were the same runs.

What a run computes follows from its settings, its number of nodes, the code, the content of its models and the versions
of the libraries; digests and versions are written down with it. So two studies may share runs, such as the fixed splits
that an adaptive rule is held against. Runs of versions that wrote no digest, and such as went on with other code than
they were begun with, are not shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from swarm.plugins.study.record import RunRecord, StudyRecord, open_run, read_run
from swarm.plugins.study.run.matrix import FREE, run_settings
from swarm.plugins.study.run.run_folder import is_finished
from swarm.provenance import code_digest, model_digests, own_modules, own_plugins
from swarm.store.place import open_place

_ELSEWHERE = ("experiment", "path", *FREE)
"""Settings that say where a run is, or how often it is saved, not what it computes."""


def with_finished_elsewhere(record: StudyRecord, path: Path, versions: Mapping[str, str]) -> StudyRecord:
    """Returns the study with runs that are not begun pointing to experiments of other studies that are the same runs.

    Args:
        versions: those with which this process would run them.
    """
    there = open_place(path).experiments()
    others = [name for name in there if name not in {run.experiment for run in record.runs}]
    known = [file for name in others if (file := read_run(path, name)) and file.experiment == name]
    if not known:
        return record
    digest = cache(partial(code_digest, judged=record.judged))  # most runs of a study go through the same code

    def found(run: RunRecord) -> RunRecord:
        settings = run_settings(record, run, path)
        code = digest(own_modules(settings), plugins=own_plugins(settings))
        computed = _computed(settings.as_recorded())
        wanted = (code, record.nodes_of(run.configuration), record.judged, _libraries(versions), computed)
        for file in known if code else ():
            made_with = (file.code, file.nodes, file.judged, _libraries(file.versions), _computed(file.settings))
            same = made_with == wanted and file.models == model_digests(computed["model"])
            if same and is_finished(open_run(path, file.experiment), record.rounds):
                return msgspec.structs.replace(run, experiment=file.experiment)
        return run

    runs = tuple(run if run.experiment in there else found(run) for run in record.runs)
    return msgspec.structs.replace(record, runs=runs)


def _libraries(versions: Mapping[str, str]) -> dict[str, str]:
    """Our own code counts by its content."""
    return {name: version for name, version in versions.items() if name != "swarm"}


def _computed(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _ELSEWHERE}
