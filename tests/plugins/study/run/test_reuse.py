"""Studies share runs that are the same, and no others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.plugins.study.record import ConfigurationRecord, RunFile, StudyRecord
from swarm.plugins.study.run.matrix import run_settings
from swarm.plugins.study.run.reuse import with_finished_elsewhere
from swarm.provenance import code_digest, model_digests, own_modules
from tests.layout import Layout
from tests.plugins.study.study_files import run_file, study_record

VERSIONS = {"swarm": "1", "torch": "2"}


def make_record(study: str, **changes: Any) -> StudyRecord:
    configurations = (
        ConfigurationRecord(name="half", settings={"local_groups": 4, "external_groups": 4}),
        ConfigurationRecord(name="alone", settings={"local_groups": 8}),
    )
    base = {"settings": {"learning_rate": 1e-4}, "versions": VERSIONS} | changes
    return study_record(*base.pop("configurations", configurations), study=study, **base)


def leave_run(path: Path, record: StudyRecord, configuration: str, *, round_: int = 3, **changes: Any) -> str:
    """What a run leaves that matters here."""
    (run,) = (run for run in record.runs if run.configuration == configuration)
    of_run = run_settings(record, run, path)
    settings = of_run.as_recorded()
    file = RunFile(
        study=record.study,
        configuration=run.configuration,
        seed=run.seed,
        experiment=run.experiment,
        nodes=record.nodes,
        rounds=record.rounds,
        started_at=1.0,
        settings=settings,
        judged=record.judged,
        versions=record.versions,
        code=code_digest(own_modules(of_run), judged=record.judged),
        models=model_digests(settings["model"]),
    )
    file = msgspec.structs.replace(file, **changes)
    layout = Layout(path, run.experiment)
    layout.state_file.parent.mkdir(parents=True)
    run_file(path, run.experiment).write_bytes(msgspec.json.encode(file))
    clock = {"round": round_, "stage": 0, "max_rounds": 3, "finished": round_ == 3, "experiment_name": run.experiment}
    layout.state_file.write_text(json.dumps({**clock, "created_at": 1.0, "updated_at": 2.0, "updated_by": "c"}))
    return run.experiment


def shared(record: StudyRecord, path: Path) -> StudyRecord:
    """With the runs that it need not run, in this record's versions."""
    return with_finished_elsewhere(record, path, record.versions)


def experiments_of(record: StudyRecord) -> dict[str, str]:
    return {run.configuration: run.experiment for run in record.runs}


def test_a_run_that_another_study_has_finished_is_taken_over(tmp_path: Path) -> None:
    there = leave_run(tmp_path, make_record("first"), "half")
    second = shared(make_record("second"), tmp_path)
    assert experiments_of(second) == {"half": there, "alone": "second-alone-s1"}


@pytest.mark.parametrize(
    ("left", "text"), [({"round_": 2}, None), ({"code": "f" * 64}, None), ({"code": ""}, None), ({}, "{")]
)
def test_a_run_that_is_unfinished_damaged_or_of_other_or_unknown_code_is_not_taken_over(
    tmp_path: Path, left: dict[str, Any], text: str | None
) -> None:
    there = leave_run(tmp_path, make_record("first"), "half", **left)
    if text:
        run_file(tmp_path, there).write_text(text)
    assert experiments_of(shared(make_record("second"), tmp_path))["half"] == "second-half-s1"


def test_a_run_with_anything_else_that_decides_its_result_is_another_run(tmp_path: Path) -> None:
    leave_run(tmp_path, make_record("first"), "half")
    others: dict[str, dict[str, Any]] = {
        "settings": {"settings": {"learning_rate": 2e-4}},
        "nodes": {"nodes": 3},
        "nodes of its own": {
            "configurations": tuple(
                msgspec.structs.replace(one, nodes=3) for one in make_record("second").configurations
            )
        },
        "rounds": {"rounds": 2},
        "judge": {"judged": True},
        "versions": {"versions": {**VERSIONS, "torch": "3"}},
    }
    for what, changes in others.items():
        found = shared(make_record("second", **changes), tmp_path)
        assert experiments_of(found)["half"] == "second-half-s1", what


def test_a_run_that_the_study_has_begun_itself_stays_its_own(tmp_path: Path) -> None:
    leave_run(tmp_path, make_record("first"), "half")
    leave_run(tmp_path, make_record("second"), "half", round_=1)
    assert experiments_of(shared(make_record("second"), tmp_path))["half"] == "second-half-s1"


def test_another_number_of_our_own_version_and_another_way_of_saving_make_no_other_run(tmp_path: Path) -> None:
    saved = {"learning_rate": 1e-4, "checkpoint_interval": 7}
    there = leave_run(tmp_path, make_record("first", versions={**VERSIONS, "swarm": "0"}, settings=saved), "half")
    assert experiments_of(shared(make_record("second"), tmp_path))["half"] == there


def test_a_study_that_goes_on_with_other_libraries_takes_over_only_runs_of_these(tmp_path: Path) -> None:
    there = leave_run(tmp_path, make_record("first"), "half")
    begun_before = make_record("second", versions={**VERSIONS, "torch": "1"})
    assert experiments_of(with_finished_elsewhere(begun_before, tmp_path, VERSIONS))["half"] == there


def test_a_run_whose_model_folder_holds_something_else_by_now_is_another_run(tmp_path: Path) -> None:
    weights = tmp_path / "model" / "weights"
    weights.parent.mkdir()
    weights.write_bytes(b"as it was")
    settings = {"settings": {"model": [str(weights.parent)]}}
    there = leave_run(tmp_path, make_record("first", **settings), "half")
    os.utime(weights, (9e9, 9e9))
    assert experiments_of(shared(make_record("second", **settings), tmp_path))["half"] == there
    weights.write_bytes(b"as it is!")
    assert experiments_of(shared(make_record("second", **settings), tmp_path))["half"] == "second-half-s1"
