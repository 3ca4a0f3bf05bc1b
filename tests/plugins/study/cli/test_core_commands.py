"""What commands of the core do with studies: export, exam, clean, and the list of a place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.plugins.study.record import RunRecord
from swarm.store.place import open_place
from swarm.web.place_list import place_document
from tests.plugins.study.study_files import record_file, study_record
from tests.unit.views.factories import make_experiment, write
from tests.unit.views.tables.small_study import SMALL


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings_from_outside: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWARM_PATH", str(SMALL))


def lines_of(name: str) -> list[str]:
    return Path(name).read_text().splitlines()


# ── export ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_an_exported_study_is_all_its_runs() -> None:
    assert run(["export", "--study", "small", "--table", "judge", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in lines_of("small-judge.jsonl")]
    assert len(rows) == 154
    assert rows[0] | {"configuration": "4/0", "seed": 1, "experiment": "small_4-0_s1", "round": 0} == rows[0]


# ── clean ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_cleaning_says_which_studies_will_lack_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_experiment(tmp_path)
    for study, name in (("one", "exp"), ("other", "else"), ("two", "exp")):
        run_of = RunRecord(configuration="a", seed=1, experiment=name)
        write(record_file(tmp_path, study), study_record("a", study=study, runs=(run_of,)))
    (tmp_path / "studies" / "other" / "study.json").write_text("{")
    assert run(["experiment", "clean", "exp", "--path", str(tmp_path), "--rollouts", "--yes"]) == 0
    assert "lack it" not in capsys.readouterr().out
    assert run(["experiment", "clean", "exp", "--path", str(tmp_path), "--yes"]) == 0
    assert "exp is a run of the study one and of the study two, which will lack it" in capsys.readouterr().out


# ── what a place has ────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_runs_of_a_study_stand_below_their_configurations(tmp_path: Path) -> None:
    record = study_record("8/0", "4/4", study="sapo", title="Does sharing help?", rounds=5, seeds=(1, 2))
    write(record_file(tmp_path, "sapo"), record)
    record_file(tmp_path, "torn").parent.mkdir(parents=True)
    record_file(tmp_path, "torn").write_bytes(b"{")
    whole, torn = place_document(open_place(tmp_path), tmp_path)["studies"]
    assert (whole["name"], whole["title"], whole["rounds"]) == ("sapo", "Does sharing help?", 5)
    assert whole["configurations"] == [
        {"name": "8/0", "runs": ["sapo-8-0-s1", "sapo-8-0-s2"]},
        {"name": "4/4", "runs": ["sapo-4-4-s1", "sapo-4-4-s2"]},
    ]
    assert torn["name"] == "torn"
    assert "study.json" in torn["problem"]


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_study_that_is_not_there_is_refused_with_the_one_that_may_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "studies" / "sapo").mkdir(parents=True)
    (tmp_path / "studies" / "sapo" / "study.json").write_text("{}")
    for command in ("study report sappo", "judge exam --study sappo", "export --study sappo"):
        assert run([*command.split(), "--path", str(tmp_path)]) == 2
        assert "there: sapo; begin one with `swarm study run`; did you mean 'sapo'?" in capsys.readouterr().err
