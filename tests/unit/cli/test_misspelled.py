"""A name that there is not is refused, with those that there are and the one that may have been meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.cli.main import run
from tests.unit.views.factories import make_experiment


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GDRIVE_PATH", "SWARM_PATH", "EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


# ── experiments ─────────────────────────────────────────────────────────────────────────────────────────────────────
LOOKING = [
    *("status", "logs", "summary", "validate", "doctor", "export", "keys known", "keys forget anna", "judge exam"),
    *("experiment status", "experiment settings", "experiment clean --yes"),
]


@pytest.mark.parametrize("command", LOOKING)
def test_an_experiment_that_is_not_there_is_refused_with_the_one_that_may_be_meant(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path, name="demo")
    assert run([*command.split(), "--path", str(tmp_path), "--experiment", "dmeo"]) == 2
    said = capsys.readouterr()
    assert f"no experiment 'dmeo' in {tmp_path}: there is demo; " in said.err
    assert said.err.endswith("; did you mean 'demo'? [SWARM-EXPERIMENT]\n")
    assert said.out == ""


def test_of_many_experiments_only_the_first_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(50):
        (tmp_path / "experiments" / f"run-{number:02}").mkdir(parents=True)
    assert run(["status", "--path", str(tmp_path), "--experiment", "urn-49"]) == 2
    said = capsys.readouterr().err
    assert "run-19 and 30 more; " in said
    assert "did you mean 'run-49'?" in said
    assert "run-20" not in said


def test_a_study_that_is_not_there_is_refused_with_the_one_that_may_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "studies" / "sapo").mkdir(parents=True)
    (tmp_path / "studies" / "sapo" / "study.json").write_text("{}")
    for command in ("study report sappo", "judge exam --study sappo", "export --study sappo"):
        assert run([*command.split(), "--path", str(tmp_path)]) == 2
        assert "there: sapo; begin one with `swarm study run`; did you mean 'sapo'?" in capsys.readouterr().err


def test_a_doctor_who_is_told_no_experiment_looks_at_the_place_and_names_those_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path, name="demo")
    assert run(["doctor", "--path", str(tmp_path), "--seconds", "0.1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["findings"][0]
    assert (first["area"], first["verdict"]) == ("experiment", "ok")
    assert "there is demo" in first["measured"]


def test_a_report_of_a_fault_is_made_without_an_experiment_and_says_which_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path, name="demo")
    assert run(["bugreport", "--no-doctor", "--path", str(tmp_path), "--experiment", "dmeo"]) == 0
    assert "there is demo; did you mean 'demo'?" in capsys.readouterr().out
