"""`swarm experiment`: what there is, and deleting no more than was asked for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from swarm.cli.experiment import live_nodes
from swarm.cli.main import run
from swarm.node.process.host import host_identity, process_started_at
from swarm.records.listing import size_of
from swarm.store.folder.store import FolderStore
from tests.layout import Layout
from tests.unit.cli.test_live import beating
from tests.unit.views.factories import START, make_experiment, make_peer, run_of

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


@pytest.fixture(autouse=True)
def _beats_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_HEARTBEAT_INTERVAL", "0.1")  # a registration is watched for three of them


def clean(path: Path, *arguments: str) -> int:
    return run(["experiment", "clean", "exp", "--path", str(path), *arguments])


def test_of_experiments_without_number_some_are_looked_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.cli.experiment.MOST_LOOKED_INTO", 3)
    for number in range(5):
        Layout(tmp_path, f"x{number}").root.mkdir(parents=True)
    assert run(["experiment", "list", "--path", str(tmp_path)]) == 0
    _, *rows, more = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["x0", "x1", "x2"]
    assert more.startswith("and 2 more")


def test_a_size_is_that_of_the_files_and_not_of_what_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"x" * 1234)
    (tmp_path / "big").write_bytes(b"x" * 100_000)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "big")
    assert size_of(FolderStore(tmp_path / "in")) == (1234, True)


def test_cleaning_deletes_the_experiment_and_nothing_beside_it(tmp_path: Path) -> None:
    layout, other = make_experiment(tmp_path), make_experiment(tmp_path, name="other")
    before = size_of(run_of(other).store)
    assert clean(tmp_path, "--yes") == 0
    assert not layout.root.exists()
    assert size_of(run_of(other).store) == before


def test_cleaning_a_part_leaves_the_others(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    assert clean(tmp_path, "--rollouts", "--yes") == 0
    assert not layout.rollouts.exists()
    assert layout.checkpoints.is_dir()
    assert clean(tmp_path, "--rollouts", "--checkpoints", "--yes") == 0
    assert not layout.checkpoints.exists()
    assert layout.metrics_file("alice").exists()
    assert clean(tmp_path, "--rollouts", "--yes") == 0


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes ", 0), ("", 1), ("n", 1)])
def test_a_terminal_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert clean(tmp_path) == code
    assert layout.root.exists() == bool(code)


def test_an_experiment_in_use_is_not_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_experiment(tmp_path)
    mine = {"host": host_identity(), "pid": os.getpid(), "process_started_at": process_started_at(os.getpid())}
    make_peer(layout, "carol", status="active", **mine)
    assert clean(tmp_path, "--yes") == 2
    assert "is in use by carol: stop them first" in capsys.readouterr().err
    assert layout.state_file.exists()


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_experiment_of_a_machine_whose_clock_is_wrong_is_not_deleted_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hours: int
) -> None:
    monkeypatch.setenv("SWARM_HEARTBEAT_INTERVAL", "3")  # it is seen at once, however busy this machine is
    layout, there = make_experiment(tmp_path), {"status": "active", "host": "elsewhere"}
    make_peer(layout, "bob", **there, beat=1, last_seen=time.time() - 86400)  # died there a day ago
    with beating(layout, "carol", last_seen=time.time() + 3600 * hours):
        assert clean(tmp_path, "--yes") == 2
    assert "is in use by carol: stop them first" in capsys.readouterr().err
    assert layout.state_file.exists()


def test_who_lives_is_asked_of_this_machine_and_believed_of_others(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    here = {"host": host_identity(), "status": "active"}
    make_peer(layout, "gone", pid=os.getpid(), process_started_at=1.0, last_seen=START, **here)
    make_peer(layout, "there", status="active", host="elsewhere", last_seen=START)
    assert live_nodes(run_of(layout), START + 5, 15.0) == ["there"]
    assert live_nodes(run_of(layout), START + 50, 15.0) == []


@pytest.mark.parametrize("part", ["", "rollouts"])
def test_a_link_out_of_the_folder_is_never_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    outside = tmp_path / "outside"
    layout = make_experiment(tmp_path / "shared")
    target = layout.root / part
    target.rename(outside)
    target.symlink_to(outside)
    before = size_of(FolderStore(outside))
    assert clean(tmp_path / "shared", "--yes", *([f"--{part}"] if part else [])) == 1
    assert "out of the shared folder" in capsys.readouterr().err
    assert size_of(FolderStore(outside)) == before


def test_links_within_an_experiment_are_removed_and_not_followed(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("!")
    (layout.logs / "alice" / "link").symlink_to(outside)
    assert clean(tmp_path / "shared", "--yes") == 0
    assert (outside / "precious").read_text() == "!"
