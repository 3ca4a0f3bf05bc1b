"""Which nodes `swarm up` starts, and with which settings."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.cli import local_swarm as module
from swarm.cli import plan as plan_module
from swarm.cli.fork_server import can_fork
from swarm.cli.local_swarm import OURS, local_swarm, plan_of, within_memory
from swarm.cli.supervisor import DaemonChild
from swarm.config import NOBODY, Settings, StartRequest, asked_in
from tests.unit.cli.swarms import have_free


def children(settings: Settings, nodes: int, processes: int | None = None) -> list[DaemonChild]:
    return local_swarm(settings, nodes, processes).children(NOBODY, settings)


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
    coordinator, workers = children(Settings(path="/p", model=("x", "y")), 3, processes=1)
    assert coordinator.role == "coordinator"
    assert workers.command == (
        "GDRIVE_PATH=/p NODE_ID=worker MODEL_NAME=x,y SWARM_EXPECTED_WORKERS=3 swarm node --nodes 3"
    )


def test_workers_of_two_processes_are_those_of_their_numbers_with_the_models_of_their_places() -> None:
    one, two = children(Settings(path="/p", clock="own", model=("x", "y")), 5, processes=2)
    assert (one.node_id, one.arguments) == ("worker-{0..1}", ("--nodes", "2"))
    assert (two.node_id, two.arguments) == ("worker-{2..4}", ("--nodes", "3", "--first", "2"))
    assert {(child.settings["MODEL_NAME"], child.settings["NODE_ID"]) for child in (one, two)} == {("x,y", "worker")}


@pytest.mark.skipif(not can_fork(["cpu"]), reason="needs Linux with pidfd")
@pytest.mark.parametrize(
    ("settings", "processes"),
    [({"device": "cpu"}, 2), ({"device": "cuda"}, 4), ({"device": "cpu", "adapter": "lora"}, 4)],
)
def test_on_a_cpu_there_is_a_process_for_each_core_at_most(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], processes: int
) -> None:
    monkeypatch.setattr(plan_module, "cores", lambda: 2)
    said = Settings(path="/p", clock="own").with_values(settings)
    swarm = local_swarm(said, 4, plan_module.most_processes(said, in_process=False, elsewhere=False))
    assert len(swarm.children(NOBODY, said)) == processes


@pytest.mark.parametrize("processes", [None, 2, 1])
def test_without_a_coordinator_only_workers_are_started(processes: int | None) -> None:
    started = children(Settings(path="/p", clock="own", threads=1), 3, processes)
    assert {child.role for child in started} <= {"worker", "workers"}
    assert {child.settings["SWARM_CLOCK"] for child in started} == {"own"}
    assert {child.settings["SWARM_EXPECTED_WORKERS"] for child in started} == {"3"}


@pytest.mark.parametrize(
    ("cores", "nodes", "settings", "threads"),
    [
        *((cores, nodes, {}, 1) for cores, nodes in ((2, 1), (8, 2), (2, 4))),
        (8, 2, {"model": ("/big",)}, 4),
        (8, 2, {"model": ("/big",), "threads": 3}, 3),
    ],
)
def test_an_embedded_model_never_gets_a_second_thread_and_others_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, nodes: int, settings: dict[str, Any], threads: int
) -> None:
    monkeypatch.setattr(module, "cores", lambda: cores)
    assert {worker.threads for worker in local_swarm(Settings(**settings), nodes).workers} == {threads}


@pytest.mark.parametrize(("free", "force"), [(800e6, True), (64e9, False)])
def test_who_insists_may_overcommit_and_where_memory_is_plenty_the_settings_stay(
    monkeypatch: pytest.MonkeyPatch, free: float, force: bool
) -> None:
    have_free(monkeypatch, free)
    swarm = local_swarm(Settings(), 4)
    assert (within_memory(swarm, plan_of(swarm), force) == swarm) != force


def test_each_node_is_told_what_was_asked_for_and_what_the_command_chose() -> None:
    asked = StartRequest("SEED=3 swarm up", {"seed": "environment variable SEED"})
    loaded = Settings(path="/p", seed=3)
    *_, worker = local_swarm(loaded, 2).children(asked, loaded)
    told = asked_in(worker.settings)
    assert told is not None
    assert told.command == "SEED=3 swarm up"
    assert told.sources["seed"] == "environment variable SEED"
    assert {name for name, source in told.sources.items() if source == OURS} == {
        *("node_id", "threads", "expected_workers")
    }
    assert "SWARM_STARTED_BY" not in worker.command
