"""A slow folder is called one, with the delay that its nodes measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.config import Settings
from swarm.store.health import FileSystem
from swarm.views.doctor import place
from tests.layout import Layout
from tests.unit.views.doctor.patients import OK, WARNING, look, make_patient
from tests.unit.views.factories import add_row

DRIVE, LOCAL = FileSystem("fuse", "/content/drive", False), FileSystem("ext4", "/", True)
SETTINGS = Settings(path="/content/drive/MyDrive/swarm", experiment="demo")


def test_minutes_of_delay_are_said_with_what_to_do() -> None:
    found = place.judge_delay([60.0, 90.0, 120.0], DRIVE, SETTINGS)
    assert found.verdict is WARNING
    assert found.measured == "median 90 s, 99th percentile 120 s, of 3 files: fuse at /content/drive is a slow folder"
    for advice in (
        "COORDINATOR_ROUND_INTERVAL=480",
        "SWARM_LIVENESS_TIMEOUT=360",
        "swarm up --no-coordinator",
        "swarm copy LOCAL /content/drive/MyDrive/swarm --experiment demo --follow",
    ):
        assert advice in found.fix


def test_a_quick_place_is_in_order() -> None:
    found = place.judge_delay([0.1] * 99 + [30.0], LOCAL, SETTINGS)
    assert (found.verdict, found.measured) == (OK, "median 0.1 s, 99th percentile 0.1 s, of 100 files")


@pytest.mark.parametrize(
    "kind", [DRIVE, *(FileSystem(f"fuse.{name}", "/mnt/x", False) for name in ("rclone", "gcsfuse"))]
)
def test_a_mount_that_is_known_to_be_late_is_named_before_anything_is_measured(kind: FileSystem) -> None:
    found = place.judge_delay([], kind, SETTINGS)
    assert found.verdict is WARNING
    assert "minutes late" in found.measured


@pytest.mark.parametrize("kind", [LOCAL, FileSystem("nfs4", "/mnt/x", False), FileSystem("ext4", "/mnt/drive", True)])
def test_others_are_not(kind: FileSystem) -> None:
    assert place.judge_delay([], kind, SETTINGS).verdict is OK


def test_the_delays_are_those_of_the_nodes_rows(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for node, delays in (("anna", [20.0, -1.0]), ("anna", []), ("ben", [40.0])):
        add_row(layout, node, 0, publish_to_pool=delays)
    finding = look(place.check_delay, make_patient(tmp_path))[place.PUBLISHED]
    assert finding.verdict is WARNING
    assert finding.measured.startswith("median 30 s, 99th percentile 40 s, of 2 files")
