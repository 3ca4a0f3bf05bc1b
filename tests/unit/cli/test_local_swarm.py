"""Which nodes `swarm up` starts, and with which settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.cli import local_swarm as module
from swarm.cli.local_swarm import OURS, LocalSwarm, local_swarm, plan_of, within_memory
from swarm.cli.supervisor import DaemonChild
from swarm.config import NOBODY, Settings, StartRequest, asked_in
from swarm.errors import ConfigError
from tests.unit.cli.memory import have_free


def children(settings: Settings, nodes: int, *, in_process: bool = False) -> list[DaemonChild]:
    return local_swarm(settings, nodes, in_process).children(NOBODY, settings)


def test_each_worker_is_a_process_with_a_model_of_the_list() -> None:
    coordinator, *workers = children(Settings(path="/p", model=("x", "y"), hub_token="secret", threads=1), 3)
    assert (coordinator.node_id, coordinator.role) == ("coordinator", "coordinator")
    assert "HUGGINGFACE_ACCESS_TOKEN" not in coordinator.settings
    assert [(w.node_id, w.role, w.settings["MODEL_NAME"]) for w in workers] == [
        ("worker-0", "worker", "x"),
        ("worker-1", "worker", "y"),
        ("worker-2", "worker", "x"),
    ]
    assert {w.settings["SWARM_EXPECTED_WORKERS"] for w in workers} == {"3"}


def test_workers_in_one_process_are_one_child_that_can_be_typed_into_a_terminal() -> None:
    coordinator, workers = children(Settings(path="/p", model=("x", "y")), 3, in_process=True)
    assert coordinator.role == "coordinator"
    assert workers.command == (
        "GDRIVE_PATH=/p NODE_ID=worker MODEL_NAME=x,y SWARM_EXPECTED_WORKERS=3 swarm node --nodes 3"
    )


@pytest.mark.parametrize("in_process", [False, True])
def test_without_a_coordinator_only_workers_are_started(in_process: bool) -> None:
    started = children(Settings(path="/p", clock="own", threads=1), 2, in_process=in_process)
    assert {child.role for child in started} <= {"worker", "workers"}
    assert {child.settings["SWARM_CLOCK"] for child in started} == {"own"}
    assert {child.settings["SWARM_EXPECTED_WORKERS"] for child in started} == {"2"}


@pytest.mark.parametrize(("cores", "nodes", "threads"), [(2, 1, 1), (8, 2, 1), (2, 4, 1)])
def test_an_embedded_model_never_gets_a_second_thread(
    monkeypatch: pytest.MonkeyPatch, cores: int, nodes: int, threads: int
) -> None:
    monkeypatch.setattr(module, "cores", lambda: cores)
    assert {worker.threads for worker in local_swarm(Settings(), nodes, in_process=False).workers} == {threads}


def test_other_models_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 8)
    assert [w.threads for w in local_swarm(Settings(model=("/big",)), 2, in_process=False).workers] == [4, 4]
    assert [w.threads for w in local_swarm(Settings(model=("/big",), threads=3), 2, in_process=False).workers] == [3, 3]


def test_workers_that_differ_cannot_share_a_process() -> None:
    swarm = local_swarm(Settings(path="/p"), 2, in_process=True)
    first, second = swarm.workers
    unlike = LocalSwarm(swarm.settings, (first, replace(second, seed=7)), in_process=True)
    with pytest.raises(ConfigError, match=r"--in-process: expected workers that differ in nothing but their models"):
        unlike.children(NOBODY, swarm.settings)


def test_who_insists_may_overcommit(monkeypatch: pytest.MonkeyPatch) -> None:
    have_free(monkeypatch, 800e6)
    swarm = local_swarm(Settings(), 4, in_process=False)
    assert within_memory(swarm, plan_of(swarm), force=True)


def test_where_memory_is_plenty_the_settings_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    have_free(monkeypatch, 64e9)
    swarm = local_swarm(Settings(), 4, in_process=False)
    assert within_memory(swarm, plan_of(swarm), force=False) == swarm


def test_each_node_is_told_what_was_asked_for_and_what_the_command_chose() -> None:
    asked = StartRequest("SEED=3 swarm up", {"seed": "environment variable SEED"})
    loaded = Settings(path="/p", seed=3)
    *_, worker = local_swarm(loaded, 2, in_process=False).children(asked, loaded)
    told = asked_in(worker.settings)
    assert told is not None
    assert told.command == "SEED=3 swarm up"
    assert told.sources["seed"] == "environment variable SEED"
    assert {name for name, source in told.sources.items() if source == OURS} == {
        *("node_id", "threads", "expected_workers")
    }
    assert "SWARM_STARTED_BY" not in worker.command
