"""Studies share runs that are the same, and no others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from swarm.study.record import ConfigurationRecord, RunFile, StudyRecord
from swarm.study.run.matrix import as_recorded, run_settings, runs_of
from swarm.study.run.reuse import with_finished_elsewhere
from tests.layout import Layout
from tests.unit.study_files import run_file

VERSIONS = {"swarm": "1", "torch": "2"}


def make_record(study: str, **changes: Any) -> StudyRecord:
    configurations = (
        ConfigurationRecord(name="half", settings={"local_groups": 4, "external_groups": 4}),
        ConfigurationRecord(name="alone", settings={"local_groups": 8}),
    )
    fields = {
        "study": study,
        "title": "",
        "created_at": 1.0,
        "nodes": 2,
        "rounds": 3,
        "seeds": (1,),
        "configurations": configurations,
        "settings": {"learning_rate": 1e-4},
        "runs": runs_of(study, configurations, (1,)),
        "versions": VERSIONS,
    }
    return StudyRecord(**{**fields, **changes})


def leave_run(path: Path, record: StudyRecord, configuration: str, *, round_: int = 3) -> str:
    """What a run leaves that matters here."""
    (run,) = (run for run in record.runs if run.configuration == configuration)
    file = RunFile(
        study=record.study,
        configuration=run.configuration,
        seed=run.seed,
        experiment=run.experiment,
        nodes=record.nodes,
        rounds=record.rounds,
        started_at=1.0,
        settings=as_recorded(run_settings(record, run, path)),
        judged=record.judged,
        versions=record.versions,
    )
    layout = Layout(path, run.experiment)
    layout.state_file.parent.mkdir(parents=True)
    run_file(path, run.experiment).write_bytes(msgspec.json.encode(file))
    clock = {"round": round_, "stage": 0, "max_rounds": 3, "finished": round_ == 3, "experiment_name": run.experiment}
    layout.state_file.write_text(json.dumps({**clock, "created_at": 1.0, "updated_at": 2.0, "updated_by": "c"}))
    return run.experiment


def experiments_of(record: StudyRecord) -> dict[str, str]:
    return {run.configuration: run.experiment for run in record.runs}


def test_a_run_that_another_study_has_finished_is_taken_over(tmp_path: Path) -> None:
    there = leave_run(tmp_path, make_record("first"), "half")
    second = with_finished_elsewhere(make_record("second"), tmp_path)
    assert experiments_of(second) == {"half": there, "alone": "second-alone-s1"}


def test_a_run_that_is_not_finished_is_not_taken_over(tmp_path: Path) -> None:
    leave_run(tmp_path, make_record("first"), "half", round_=2)
    assert experiments_of(with_finished_elsewhere(make_record("second"), tmp_path))["half"] == "second-half-s1"


def test_a_run_with_anything_else_that_decides_its_result_is_another_run(tmp_path: Path) -> None:
    leave_run(tmp_path, make_record("first"), "half")
    others: dict[str, dict[str, Any]] = {
        "settings": {"settings": {"learning_rate": 2e-4}},
        "nodes": {"nodes": 3},
        "rounds": {"rounds": 2},
        "judge": {"judged": True},
        "versions": {"versions": {**VERSIONS, "torch": "3"}},
    }
    for what, changes in others.items():
        found = with_finished_elsewhere(make_record("second", **changes), tmp_path)
        assert experiments_of(found)["half"] == "second-half-s1", what


def test_a_run_that_the_study_has_begun_itself_stays_its_own(tmp_path: Path) -> None:
    leave_run(tmp_path, make_record("first"), "half")
    leave_run(tmp_path, make_record("second"), "half", round_=1)
    assert experiments_of(with_finished_elsewhere(make_record("second"), tmp_path))["half"] == "second-half-s1"


def test_a_damaged_record_of_a_run_is_left_alone(tmp_path: Path) -> None:
    there = leave_run(tmp_path, make_record("first"), "half")
    run_file(tmp_path, there).write_text("{")
    assert experiments_of(with_finished_elsewhere(make_record("second"), tmp_path))["half"] == "second-half-s1"


def test_a_run_whose_model_folder_has_changed_since_is_another_run(tmp_path: Path) -> None:
    weights = tmp_path / "model" / "weights"
    weights.parent.mkdir()
    weights.write_bytes(b"as it was")
    os.utime(weights, (0.5, 0.5))
    settings = {"settings": {"model": [str(weights.parent)]}}
    there = leave_run(tmp_path, make_record("first", **settings), "half")
    assert experiments_of(with_finished_elsewhere(make_record("second", **settings), tmp_path))["half"] == there
    os.utime(weights, (1.5, 1.5))
    found = with_finished_elsewhere(make_record("second", **settings), tmp_path)
    assert experiments_of(found)["half"] == "second-half-s1"
