"""A name that there is not is refused, with those that there are and the one that may have been meant."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.records.event_names import EVENTS
from tests.unit.views.factories import append_events, make_event, make_experiment

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GDRIVE_PATH", "SWARM_PATH", "EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


# ── experiments ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_many_experiments_only_the_first_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(50):
        (tmp_path / "experiments" / f"run-{number:02}").mkdir(parents=True)
    assert run(["status", "--path", str(tmp_path), "--experiment", "urn-49"]) == 2
    said = capsys.readouterr().err
    assert "run-19 and 30 more; " in said
    assert "did you mean 'run-49'?" in said
    assert "run-20" not in said


def test_a_doctor_who_is_told_no_experiment_examines_the_only_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path, name="demo")
    run(["doctor", "--path", str(tmp_path), "--seconds", "0.1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["experiment"] == "demo"
    (clock,) = [one for one in found["findings"] if (one["area"], one["check"]) == ("state", "clock")]
    assert clock["measured"].startswith("3/3 rounds done")


def test_a_report_of_a_fault_is_made_without_an_experiment_and_says_which_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path, name="demo")
    assert run(["bugreport", "--no-doctor", "--path", str(tmp_path), "--experiment", "dmeo"]) == 0
    assert "there is demo; did you mean 'demo'?" in capsys.readouterr().out


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def logs(path: Path, *arguments: str) -> int:
    return run(["logs", "--path", str(path), "--experiment", "exp", *arguments])


def test_an_event_of_a_stranger_or_another_version_is_found_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append_events(make_experiment(tmp_path), "alice", make_event("nonsense.later", 5.0))
    for pattern in ("nonsense.later", "nonsense.*"):
        assert logs(tmp_path, "--event", pattern) == 0
        assert "nonsense.later" in capsys.readouterr().out


def test_the_names_of_events_are_those_that_are_said() -> None:
    said = {name for file in (ROOT / "swarm").rglob("*.py") for name in names_said(ast.parse(file.read_text("utf-8")))}
    assert said == EVENTS


def names_said(tree: ast.Module) -> Iterator[str]:
    """The texts that calls of a logger begin with, and those of problems that are logged once."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        first = [*call.args, *(keyword.value for keyword in call.keywords)] if names(call.func) == "LogOnce" else []
        if isinstance(call.func, ast.Attribute) and names(call.func.value) in ("logger", "log", "get_logger"):
            first = call.args[:1]
        for text in (node for argument in first for node in ast.walk(argument) if isinstance(node, ast.Constant)):
            if isinstance(text.value, str) and re.fullmatch(r"[a-z]+(\.[a-z_]+)?", text.value):
                yield text.value


def names(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else names(node.func) if isinstance(node, ast.Call) else ""
