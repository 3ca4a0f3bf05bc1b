"""`swarm study report` and `swarm study compare`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import json

from swarm.cli.main import run
from swarm.errors import ConfigError
from swarm.plugins.study.cli import studies
from swarm.plugins.study.record import RunRecord
from swarm.store.place import open_place
from swarm.web.place_list import place_document
from tests.plugins.study.report.report_factory import write_study
from tests.plugins.study.study_files import record_file, study_record
from tests.unit.views.factories import make_experiment, write
from tests.unit.views.tables.small_study import SMALL


def compared(capsys: pytest.CaptureFixture[str], path: Path, a: str, b: str) -> str:
    assert run(["study", "compare", a, b, "--path", str(path)]) == 0
    return capsys.readouterr().out


def test_compare_tests_configurations_of_three_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path)
    text = compared(capsys, tmp_path, "small:8/0", "small:4/4")
    assert "small:4/4 against small:8/0, over the first 12 rounds" in text
    assert "cumulative reward: Welch t(" in text
    assert "median round of first reaching" in text


def test_compare_of_two_experiments_prints_no_p_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path)
    text = compared(capsys, tmp_path, "small-0-s1", "small-1-s1")
    row = next(line.split() for line in text.splitlines() if line.startswith("bytes fetched"))
    assert row == ["bytes", "fetched", "0", "72,000", "72,000", "-"]
    assert "no p-value: that takes 3 runs on either side" in text
    assert "Welch" not in text


def test_compare_says_where_one_trained_on_more_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four = {"local_groups": 4, "external_wanted": 0}
    write_study(tmp_path, study="small", **four)
    write_study(tmp_path, study="big", **(four | {"external_wanted": 4}))
    text = compared(capsys, tmp_path, "small:8/0", "big:8/0")
    assert text.splitlines()[-1] == (
        "a round of big:8/0 trains on 8 groups, one of small:8/0 on 4: 2 times as many. So the difference is not the "
        "effect of sharing alone"
    )
    assert "times as many" not in compared(capsys, tmp_path, "small:8/0", "small:4/4")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "find_spec", lambda name: None if name == "scipy" else object())
    with pytest.raises(ConfigError, match=r'needs scipy, not installed: .* -m pip install .*"scipy'):
        studies.report("small")
    with pytest.raises(ConfigError, match="a comparison needs scipy"):
        studies.compare("a", "b")


def test_a_report_is_of_a_study_or_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path, seeds=(1,), rounds=4, configurations=("8/0",))
    target = tmp_path / "page"
    first = ["study", "report", "small", "--path", str(tmp_path), "--output", str(target), "--format", "csv"]
    assert run([*first, "--window", "2"]) == 0
    assert capsys.readouterr().out == f"wrote {target / 'report.md'}\n"
    assert {file.suffix for file in target.rglob("*.*")} == {".md", ".csv", ".json"}
    assert "--window 2" in (target / "report.md").read_text("utf-8").replace("\\", "")
    again = ["study", "report", "--from-tables", str(target / "tables"), "--output", str(tmp_path / "again")]
    assert run([*again, "--format", "csv"]) == 0
    assert (tmp_path / "again" / "tables" / "comparison.csv").exists()
    capsys.readouterr()
    for wrong in (["study", "report"], [*first, "--from-tables", str(target)]):
        assert run(wrong) == 2
        assert "name either a study, or a folder of tables" in capsys.readouterr().err


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
