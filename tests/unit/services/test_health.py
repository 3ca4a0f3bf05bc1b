"""The health check of a container, for a node that is well, silent, unknown or without a name."""

import time
from pathlib import Path

import pytest

from services.health import main
from swarm.node.process.host import this_process
from tests.layout import Layout
from tests.unit.views.factories import make_peer


def registered(path: Path, *, last_seen: float) -> None:
    here = this_process()  # which runs, whatever its event loop does
    make_peer(Layout(path, "demo"), "anna", host=here.host, pid=here.pid, last_seen=last_seen)


@pytest.fixture(autouse=True)
def _of_anna(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SWARM_PATH", str(tmp_path)), ("EXPERIMENT_NAME", "demo"), ("NODE_ID", "anna")):
        monkeypatch.setenv(name, value)


def test_a_node_that_beats_is_well_and_one_that_is_silent_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registered(tmp_path, last_seen=time.time())
    assert main() == 0
    registered(tmp_path, last_seen=time.time() - 3600)
    assert main() == 1
    assert "silent for more than" in capsys.readouterr().err


def test_a_node_that_is_not_there_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 1
    assert "no experiment 'demo'" in capsys.readouterr().err
    registered(tmp_path, last_seen=time.time())
    Layout(tmp_path, "demo").peer_file("anna").rename(tmp_path / "away")
    assert main() == 1
    assert "anna has not registered in demo" in capsys.readouterr().err


def test_a_check_of_nobody_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("NODE_ID")
    assert main() == 1
    assert "expected the node's id in NODE_ID" in capsys.readouterr().err
