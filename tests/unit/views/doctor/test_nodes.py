"""Who is alive, who is there twice, who is behind, who runs what, and whether this machine can score."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.views.doctor import machine, nodes
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.doctor.patients import FAILURE, NOW, OK, WARNING, Scene, look, make_patient
from tests.unit.views.factories import append, make_experiment, make_peer, make_start, make_state, write


def running(tmp_path: Path, **fields: object) -> tuple[Layout, Scene]:
    """A swarm in round 5 whose coordinator and two workers beat."""
    layout, scene = Layout(tmp_path / "shared", "exp"), Scene()
    write(layout.state_file, make_state(layout, round=5, max_rounds=10, updated_at=NOW))
    scene.beats(layout, "clock", node_role="coordinator", round=5)
    scene.beats(layout, "alice", round=5)
    scene.beats(layout, "bob", round=5)
    return layout, scene


def test_a_healthy_swarm_is_all_well(tmp_path: Path) -> None:
    layout, scene = running(tmp_path)
    found = look(nodes.check_nodes, make_patient(layout.path, scene))
    assert {finding.verdict for finding in found.values()} == {OK}
    assert found["alive"].measured.startswith("3 alive, 0 said goodbye, 0 silent")


def test_a_node_that_stopped_beating_long_ago_is_named(tmp_path: Path) -> None:
    layout, scene = running(tmp_path)
    make_peer(layout, "ghost", host="attic/boot/ns", pid=77)
    os.utime(layout.peer_file("ghost"), (NOW - 600, NOW - 600))
    found = look(nodes.check_nodes, make_patient(layout.path, scene, probe=False))
    assert found["alive"].verdict is WARNING
    assert "ghost (pid 77 on attic, last sign 10m ago)" in found["alive"].measured
    assert "delete" in found["alive"].fix


def test_two_processes_that_write_one_registration_by_turns_are_a_failure(tmp_path: Path) -> None:
    layout, scene = running(tmp_path)
    scene.beats(layout, "twin", "left", "right", round=5)
    found = look(nodes.check_nodes, make_patient(layout.path, scene))["one process per id"]
    assert found.verdict is FAILURE
    assert "twin by 2 processes" in found.measured


def test_a_node_that_was_restarted_meanwhile_is_no_duplicate(tmp_path: Path) -> None:
    layout, scene = running(tmp_path)
    scene.beats(layout, "phoenix", *["before"] * 5, *["after"] * 50, round=5)
    assert look(nodes.check_nodes, make_patient(layout.path, scene))["one process per id"].verdict is OK


def test_two_live_coordinators_are_a_failure_and_a_standby_is_none(tmp_path: Path) -> None:
    layout, scene = running(tmp_path)
    scene.beats(layout, "spare", node_role="coordinator", status="standby")
    assert look(nodes.check_nodes, make_patient(layout.path, scene))["coordinator"].verdict is OK
    layout, scene = running(tmp_path / "other")
    scene.beats(layout, "rival", node_role="coordinator")
    found = look(nodes.check_nodes, make_patient(layout.path, scene))["coordinator"]
    assert found.verdict is FAILURE
    assert "clock, rival" in found.fix


def test_workers_without_a_coordinator_are_a_failure_unless_they_want_none(tmp_path: Path) -> None:
    layout, scene = Layout(tmp_path / "shared", "exp"), Scene()
    scene.beats(layout, "alice")
    found = look(nodes.check_nodes, make_patient(layout.path, scene))["coordinator"]
    assert found.verdict == FAILURE
    assert found.fix.startswith("start one: swarm node --role coordinator")
    own = look(nodes.check_nodes, make_patient(layout.path, Scene(scene.happens), probe=False, clock="own"))[
        "coordinator"
    ]
    assert own.verdict is OK


def test_a_stopped_swarm_misses_no_coordinator(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "shared", "exp")
    make_peer(layout, "alice", status="stopped")
    found = look(nodes.check_nodes, make_patient(layout.path))
    assert found["coordinator"].verdict is OK
    assert found["alive"].measured.startswith("0 alive, 1 said goodbye, 0 silent for 0.0 s")


def test_a_node_whose_clock_is_a_day_off_is_named(tmp_path: Path) -> None:
    layout, scene = running(tmp_path)
    scene.beats(layout, "tomorrow", clock_off=86400.0, round=5)
    found = look(nodes.check_nodes, make_patient(layout.path, scene))["clocks"]
    assert found.verdict is WARNING
    assert "tomorrow +86400.0 s" in found.measured


def start(layout: Layout, node: str, **said: str) -> None:
    versions = {name.replace("_", "-"): value for name, value in said.items()}
    append(layout.root / keys.starts(node), msgspec.json.encode(make_start(layout, node, versions=versions)))


def test_equal_versions_are_well_and_the_last_start_of_a_node_counts(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    start(layout, "alice", swarm="0.0.9", reasoning_gym="0.1.9")
    for node in ("alice", "bob"):
        start(layout, node, swarm="0.1.0", reasoning_gym=version("reasoning-gym"))
    found = look(nodes.check_versions, make_patient(layout.path))
    assert found["reasoning-gym"].measured == f"{version('reasoning-gym')} on 2 nodes"
    assert (found["reasoning-gym"].verdict, found["swarm"].verdict) == (OK, OK)


def test_other_versions_of_reasoning_gym_are_a_failure_and_of_swarm_a_warning(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    start(layout, "alice", swarm="0.1.0", reasoning_gym="0.1.9")
    start(layout, "bob", swarm="0.2.0", reasoning_gym="0.1.25")
    found = look(nodes.check_versions, make_patient(layout.path))
    assert (found["reasoning-gym"].verdict, found["swarm"].verdict) == (FAILURE, WARNING)
    assert found["reasoning-gym"].measured == "0.1.9 on alice; 0.1.25 on bob"
    assert "reasoning-gym==0.1.25" in found["reasoning-gym"].fix


def test_a_real_child_is_asked_about_all_bars() -> None:
    bars = machine.measure_bars()
    assert not isinstance(bars, str), bars
    assert [bar.name for bar in bars] == ["privileges", "capabilities", "landlock", "seccomp"]
    assert all(bar.detail for bar in bars)


def silent(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], -9, b"", b"")


def late(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
    raise subprocess.TimeoutExpired("python", 30)


@pytest.mark.parametrize("ends", [silent, late])
def test_a_child_that_cannot_tell_is_a_finding_and_no_crash(
    monkeypatch: pytest.MonkeyPatch, ends: Callable[..., Any]
) -> None:
    monkeypatch.setattr(machine.subprocess, "run", ends)
    assert "the child that puts them up failed" in str(machine.measure_bars())
