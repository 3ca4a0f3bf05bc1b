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
from typing import Any, NamedTuple

import msgspec

from swarm.plugins.study.record import RunFile, RunRecord, StudyRecord, open_run, read_run
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
        nodes = record.nodes_of(run.configuration)
        code = digest(own_modules(settings), plugins=own_plugins(settings))
        wanted = _Wanted(record, nodes, _computed(settings.as_recorded()), code, _libraries(versions))
        return _found(wanted, run, known, path)

    runs = tuple(run if run.experiment in there else found(run) for run in record.runs)
    return msgspec.structs.replace(record, runs=runs)


def _found(wanted: _Wanted, run: RunRecord, known: list[RunFile], path: Path) -> RunRecord:
    for file in known:
        if wanted.is_that_of(file) and is_finished(open_run(path, file.experiment), wanted.record.rounds):
            return msgspec.structs.replace(run, experiment=file.experiment)
    return run


class _Wanted(NamedTuple):
    """Says what a run must have been made with."""

    record: StudyRecord
    nodes: int
    settings: dict[str, Any]
    code: str
    libraries: dict[str, str]

    def is_that_of(self, file: RunFile) -> bool:
        record = self.record
        return (
            bool(self.code)
            and (file.code, file.nodes, file.judged) == (self.code, self.nodes, record.judged)
            and _libraries(file.versions) == self.libraries
            and _computed(file.settings) == self.settings
            and file.models == model_digests(self.settings["model"])
        )


def _libraries(versions: Mapping[str, str]) -> dict[str, str]:
    """Our own code counts by its content."""
    return {name: version for name, version in versions.items() if name != "swarm"}


def _computed(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _ELSEWHERE}
