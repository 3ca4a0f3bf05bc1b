"""`swarm experiment`: what there is, and deleting no more than was asked for."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from swarm.node.process.host import host_identity, process_started_at
from swarm.records.listing import size_of
from swarm.store.folder.store import FolderStore
from tests.layout import Layout
from tests.unit.cli.conftest import Typed
from tests.unit.cli.test_processes import beating
from tests.unit.views.factories import make_experiment, make_peer, run_of

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


@pytest.fixture(autouse=True)
def _beats_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_HEARTBEAT_INTERVAL", "0.1")  # a registration is watched for three of them


@pytest.fixture
def clean(typed: Typed, tmp_path: Path) -> Typed:
    return partial(typed, "experiment", "clean", "exp", "--path", tmp_path)


def test_of_experiments_without_number_some_are_looked_into(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.cli.experiment.MOST_LOOKED_INTO", 3)
    for number in range(5):
        Layout(tmp_path, f"x{number}").root.mkdir(parents=True)
    _, *rows, more = typed("experiment", "list", "--path", tmp_path).out.splitlines()
    assert [row.split()[0] for row in rows] == ["x0", "x1", "x2"]
    assert more.startswith("and 2 more")


def test_a_size_is_that_of_the_files_and_not_of_what_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"x" * 1234)
    (tmp_path / "big").write_bytes(b"x" * 100_000)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "big")
    assert size_of(FolderStore(tmp_path / "in")) == (1234, True)


def test_cleaning_deletes_the_experiment_or_a_part_of_it_and_nothing_beside_it(tmp_path: Path, clean: Typed) -> None:
    layout, other = make_experiment(tmp_path), make_experiment(tmp_path, name="other")
    before = size_of(run_of(other).store)
    clean("--rollouts", "--yes")
    assert not layout.rollouts.exists()
    assert layout.checkpoints.is_dir()
    clean("--rollouts", "--checkpoints", "--yes")
    assert not layout.checkpoints.exists()
    assert layout.metrics_file("alice").exists()
    clean("--yes")
    assert not layout.root.exists()
    assert size_of(run_of(other).store) == before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes ", 0), ("", 1), ("n", 1)])
def test_a_terminal_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: Typed, answer: str, code: int
) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    clean(code=code)
    assert layout.root.exists() == bool(code)


def test_an_experiment_in_use_is_not_deleted(tmp_path: Path, clean: Typed) -> None:
    layout = make_experiment(tmp_path)
    mine = {"host": host_identity(), "pid": os.getpid(), "process_started_at": process_started_at(os.getpid())}
    make_peer(layout, "carol", status="active", **mine)
    assert "is in use by carol: stop them first" in clean("--yes", code=2).err
    assert layout.state_file.exists()


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_experiment_of_a_machine_whose_clock_is_wrong_is_not_deleted_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: Typed, hours: int
) -> None:
    monkeypatch.setenv("SWARM_HEARTBEAT_INTERVAL", "3")  # it is seen at once, however busy this machine is
    layout, there = make_experiment(tmp_path), {"status": "active", "host": "elsewhere"}
    make_peer(layout, "bob", **there, beat=1, last_seen=time.time() - 86400)  # died there a day ago
    with beating(layout, "carol", last_seen=time.time() + 3600 * hours):
        assert "is in use by carol: stop them first" in clean("--yes", code=2).err
    assert layout.state_file.exists()


@pytest.mark.parametrize("part", ["", "rollouts"])
def test_a_link_out_of_the_folder_is_never_followed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, clean: Typed, part: str
) -> None:
    outside, target = tmp_path_factory.mktemp("outside") / "in", make_experiment(tmp_path).root / part
    target.rename(outside)
    target.symlink_to(outside)
    before = size_of(FolderStore(outside))
    assert "out of the shared folder" in clean("--yes", *([f"--{part}"] if part else []), code=1).err
    assert size_of(FolderStore(outside)) == before


def test_links_within_an_experiment_are_removed_and_not_followed(tmp_path: Path, clean: Typed) -> None:
    (tmp_path / "precious").write_text("!")
    (make_experiment(tmp_path).logs / "alice" / "link").symlink_to(tmp_path)
    clean("--yes")
    assert (tmp_path / "precious").read_text() == "!"
