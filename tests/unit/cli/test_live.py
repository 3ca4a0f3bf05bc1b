"""`swarm up` refuses an experiment that is running, before anything starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swarm.cli.processes import refuse_live
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.node.process.host import host_identity
from swarm.store.folder.store import FolderStore
from swarm.store.run import Run
from tests.layout import Layout
from tests.unit.cli.test_processes import REGISTERS, process
from tests.unit.views.factories import make_peer

NAMES = ["coordinator", "worker-0"]


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def settings_in(tmp_path: Path) -> Settings:
    return Settings().with_values({"path": str(tmp_path), "experiment": "exp", "heartbeat_interval": 0.2})


def run_in(tmp_path: Path) -> Run:
    return Run("exp", FolderStore(Layout(tmp_path, "exp").root))


def refuse(tmp_path: Path) -> None:
    refuse_live(settings_in(tmp_path), run_in(tmp_path), NAMES)


@pytest.mark.parametrize(
    ("role", "nodes", "title"), [("up", ["worker-7"], "swarm up"), ("worker", ["worker-0"], "worker-0")]
)
def test_what_runs_here_is_named_with_the_ways_out(tmp_path: Path, role: str, nodes: list[str], title: str) -> None:
    with process(REGISTERS, tmp_path, "exp", role, *nodes) as other, pytest.raises(ExperimentError) as refused:
        refuse(tmp_path)
    said = str(refused.value)
    assert f"is running: {title} (process {other.pid})" in said
    assert f"`swarm down --path {tmp_path} --experiment exp`" in said
    assert "another --experiment" in said
    assert f"`swarm node --path {tmp_path} --experiment exp --node-id NAME`" in said


def test_a_node_of_another_name_may_be_joined(tmp_path: Path) -> None:
    with process(REGISTERS, tmp_path, "exp", "worker", "guest"):
        refuse(tmp_path)


@contextmanager
def beating(layout: Layout, name: str, last_seen: float) -> Iterator[None]:
    """A registration of another machine whose heartbeat moves, for the block; its clock stands."""
    over, first = threading.Event(), threading.Event()

    def beat() -> None:
        number = 0
        while not over.is_set():
            number += 1
            make_peer(layout, name, status="active", host="elsewhere", beat=number, last_seen=last_seen)
            first.set()
            over.wait(0.05)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        first.wait()
        yield
    finally:
        over.set()
        thread.join()


NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.cli.processes.time.time", lambda: NOW)


def test_ids_that_beat_elsewhere_are_refused(tmp_path: Path) -> None:
    with (
        beating(Layout(tmp_path, "exp"), "worker-0", NOW),
        pytest.raises(ExperimentError, match="worker-0 beat in it, of another machine"),
    ):
        refuse(tmp_path)


@pytest.mark.parametrize(
    "claim",
    [
        {"status": "active", "host": "elsewhere", "last_seen": NOW},
        {"status": "active", "host": host_identity(), "pid": 4_000_000, "last_seen": NOW},
        {"status": "stopped", "host": "elsewhere", "last_seen": NOW},
    ],
)
def test_a_registration_that_does_not_beat_keeps_nobody_from_starting(tmp_path: Path, claim: dict[str, object]) -> None:
    make_peer(Layout(tmp_path, "exp"), "worker-0", **claim)
    refuse(tmp_path)


def test_a_guest_that_beats_is_no_reason(tmp_path: Path) -> None:
    with beating(Layout(tmp_path, "exp"), "guest", NOW):
        refuse(tmp_path)
