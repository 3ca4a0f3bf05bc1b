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


def test_status_names_every_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_experiment(tmp_path)
    assert look(tmp_path, "status") == 0
    text = capsys.readouterr().out
    assert "finished: 3 of 3 rounds" in text
    assert all(node in text for node in ("alice", "bob", "clock"))


def test_status_shows_either_now_or_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_experiment(tmp_path)
    assert look(tmp_path, "status", "--started") == 0
    assert "no node has a record of its start" in capsys.readouterr().out
    assert look(tmp_path, "status", "--started", "--watch") == 2
    assert "give one of them" in capsys.readouterr().err


def test_status_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_experiment(tmp_path)
    assert look(tmp_path, "status", "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["round"], status["finished"], status["nodes"][0]["node"]) == (3, True, "alice")


def test_the_experiment_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path)
    monkeypatch.setenv("GDRIVE_PATH", str(tmp_path))
    monkeypatch.setenv("EXPERIMENT_NAME", "exp")
    assert run(["status"]) == 0
    assert "exp in" in capsys.readouterr().out


def test_logs_shows_the_last_lines_of_the_nodes_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_experiment(tmp_path)
    assert look(tmp_path, "logs", "-n", "2", "--node", "alice", "--node", "bob", "--event", "round.*") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["alice", "bob"]
    assert "round=2" in lines[0]


def test_logs_as_json_are_the_lines_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_experiment(tmp_path)
    assert look(tmp_path, "logs", "--json", "--node", "alice") == 0
    assert capsys.readouterr().out == layout.events_file("alice").read_text()


def test_a_node_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path)
    assert look(tmp_path, "logs", "--node", "zoe") == 2
    assert "there are alice, bob, clock" in capsys.readouterr().err


def test_validate_exits_1_for_a_run_that_is_not_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_experiment(tmp_path)
    assert look(tmp_path, "validate") == 0
    layout.state_file.unlink()
    assert look(tmp_path, "validate") == 1
    capsys.readouterr()
    assert look(tmp_path, "validate", "--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


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


def test_no_log_line_of_a_stranger_commands_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_experiment(tmp_path)
    with layout.events_file("alice").open("ab") as log:
        log.write(b'{"timestamp":1.0,"level":"info","event":"x\xc2\x9b2J","note":"\xc3\xa4"}\n\x1b[2J no JSON\n')
    assert look(tmp_path, "logs", "--json") == 0
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert '"event":"x\\u009b2J","note":"ä"' in text


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
