"""What the looking commands print."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from swarm.cli import flags
from swarm.cli.flags import open_experiment_when_there
from swarm.cli.main import run
from swarm.config import Settings
from swarm.types import RoundKey
from tests.unit.views.factories import make_experiment


def look(path: Path, *arguments: str) -> int:
    return run([*arguments, "--path", str(path), "--experiment", "exp"])


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GDRIVE_PATH", "SWARM_PATH", "EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_the_experiment_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path)
    monkeypatch.setenv("GDRIVE_PATH", str(tmp_path))
    monkeypatch.setenv("EXPERIMENT_NAME", "exp")
    assert run(["status"]) == 0
    assert "exp in" in capsys.readouterr().out


def test_validate_checks_some_nodes_alone_and_refuses_names_that_nobody_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = make_experiment(tmp_path)
    layout.rollout_file(RoundKey(0), "alice").unlink()
    assert look(tmp_path, "validate") == 1
    assert look(tmp_path, "validate", "--node", "bob") == 0
    assert look(tmp_path, "validate", "--node", "bob", "--node", "alice") == 1
    capsys.readouterr()
    assert look(tmp_path, "validate", "--node", "bbo") == 2
    assert "--node bbo: no such node has logs" in capsys.readouterr().err


def test_summary_as_text_json_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    make_experiment(tmp_path)
    assert look(tmp_path, "summary", "--plot", str(tmp_path / "a.svg")) == 0
    assert "mean reward" in capsys.readouterr().out
    assert (tmp_path / "a.svg").exists()
    assert look(tmp_path, "summary", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 3


def test_who_looks_before_the_experiment_is_there_waits_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flags, "POLL_SECONDS", 0.001)
    make_experiment(tmp_path, name="another")
    begun = threading.Timer(0.05, lambda: make_experiment(tmp_path, name="demo"))
    begun.start()
    found = open_experiment_when_there(Settings(path=str(tmp_path), experiment="demo"))
    begun.join()
    assert found.experiment == "demo"
    assert f"waiting for the experiment demo in {tmp_path}, there are another" in capsys.readouterr().err
