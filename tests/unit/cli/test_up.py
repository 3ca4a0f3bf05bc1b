"""What `swarm up` starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.cli import up
from swarm.cli.supervisor import Child
from swarm.cli.up import daemons, daemons_in_process
from swarm.config import Settings
from swarm.errors import MemoryPlanError
from swarm.planner import planner
from swarm.planner.device_memory import DeviceMemory


def test_each_worker_is_a_process_with_a_model_of_the_list() -> None:
    coordinator, *workers = daemons(Settings(path="/p", model=("x", "y"), hub_token="secret", threads=1), 3)
    assert (coordinator.node_id, coordinator.role) == ("coordinator", "coordinator")
    assert "HUGGINGFACE_ACCESS_TOKEN" not in coordinator.settings
    assert [(w.node_id, w.role, w.settings["MODEL_NAME"]) for w in workers] == [
        ("worker-0", "worker", "x"),
        ("worker-1", "worker", "y"),
        ("worker-2", "worker", "x"),
    ]
    assert {w.settings["SWARM_EXPECTED_WORKERS"] for w in workers} == {"3"}


def test_workers_in_one_process_are_one_child_that_can_be_typed_into_a_terminal() -> None:
    coordinator, workers = daemons_in_process(Settings(path="/p", model=("x", "y")), 3)
    assert coordinator.role == "coordinator"
    assert workers.command == (
        "GDRIVE_PATH=/p NODE_ID=worker MODEL_NAME=x,y SWARM_EXPECTED_WORKERS=3 swarm workers --nodes 3"
    )


@pytest.mark.parametrize("started", [daemons, daemons_in_process])
def test_without_a_coordinator_only_workers_are_started(started: Callable[[Settings, int], list[Child]]) -> None:
    children = started(Settings(path="/p", clock="own", threads=1), 2)
    assert {child.role for child in children} <= {"worker", "workers"}
    assert {child.settings["SWARM_CLOCK"] for child in children} == {"own"}
    assert {child.settings["SWARM_EXPECTED_WORKERS"] for child in children} == {"2"}


def test_a_swarm_that_does_not_fit_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 800e6)
    monkeypatch.setattr(up, "_run", None)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    with pytest.raises(MemoryPlanError, match=r"does not fit: 4 nodes .* at most 1 --nodes, .*--force"):
        up.up(nodes=4)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_who_insists_may_overcommit(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 800e6)
    assert up._within_memory(Settings(), 4, in_process=False, force=True)


def test_where_memory_is_plenty_the_settings_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 64e9)
    assert up._within_memory(Settings(), 4, in_process=False, force=False) == Settings()


def free(monkeypatch: pytest.MonkeyPatch, free_bytes: float) -> None:
    device = DeviceMemory(device="cpu", free=int(free_bytes), total=10**12, host_free=int(free_bytes))
    monkeypatch.setattr(planner, "device_memory", lambda _: device)
