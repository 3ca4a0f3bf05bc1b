"""A shared folder that goes away in mid-run and comes back, as a mounted Drive does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from swarm.records.files import read_state
from tests.integration.swarms import LIGHT, daemons, environment, eventually, layout, rows, run_swarm

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
WORKERS = ("anna", "ben")
ROUNDS = 60


class Share(Protocol):
    """A folder at `at` that can go away."""

    at: Path
    disk: Path
    """Where its files lie at the end."""

    def leave(self) -> None: ...
    def come_back(self) -> None: ...


class Moved:
    """Goes away by a rename; what was written in its place meanwhile is then in `beneath`."""

    def __init__(self, path: Path) -> None:
        self.at, self._away, self.beneath = path / "share", path / "away", path / "beneath"
        self.disk = self.at
        self.at.mkdir(parents=True)

    def leave(self) -> None:
        self.at.rename(self._away)
        self.at.mkdir()

    def come_back(self) -> None:
        self.at.rename(self.beneath)
        self._away.rename(self.at)


class Mounted:
    """Goes away as a FUSE mount does, with files of it open."""

    def __init__(self, path: Path) -> None:
        self.at, self.disk = path / "share", path / "disk"
        for folder in (self.at, self.disk):
            folder.mkdir(parents=True)
        self.come_back()

    def leave(self) -> None:
        subprocess.run(["fusermount3", "-u", "-z", self.at], check=True)

    def come_back(self) -> None:
        done = subprocess.run(["bindfs", "-o", "nonempty", self.disk, self.at], capture_output=True, text=True)
        if done.returncode:
            raise OSError(done.stderr.strip())


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    """Mounted where that can be; else moved."""
    made: Share
    try:
        made = Mounted(tmp_path / "mounted")
    except OSError:  # no bindfs, or no leave to mount
        made = Moved(tmp_path / "moved")
    try:
        yield made
    finally:
        if isinstance(made, Mounted):
            with suppress(subprocess.CalledProcessError):  # it is away
                made.leave()


def settings(share: Share) -> dict[str, str]:
    return environment(
        share.at,
        MODEL_NAME="fake",
        SWARM_PROFILE="tiny-2",
        SWARM_EXPECTED_WORKERS=2,
        MAX_ROUNDS=ROUNDS,
        CHECKPOINT_INTERVAL=5,
        LIGHT_STEP=0.1,
        SWARM_LOG_LEVEL="warning",
    )


def rounds(share: Share) -> int:
    with suppress(OSError):
        state = read_state(layout(share.at).run)
        return state.round if state else 0
    return 0


def test_a_share_that_was_away_finds_its_nodes_where_they_were_and_those_that_began_anew_under_it_end(
    share: Share,
) -> None:
    """It is away twice: all nodes live on; then some start meanwhile, and begin the run anew under the mount point."""
    env = settings(share)
    modules = {"clock": "services.coordinator", "anna": LIGHT, "ben": LIGHT}
    with daemons() as start:
        nodes = {name: start(module, env | {"NODE_ID": name}) for name, module in modules.items()}
        eventually(lambda: rounds(share) >= 8, "some rounds")
        share.leave()
        for node in nodes.values():
            eventually(lambda node=node: node.says("heartbeat.failed"), "each node to notice")  # type: ignore[misc]
        found = list(share.at.rglob("*"))
        share.come_back()
        before = rounds(share)
        eventually(lambda: rounds(share) >= before + 8, "more rounds")
        noticed = nodes["anna"].says("heartbeat.failed")

        share.leave()
        for name in ("clock", "ben"):
            nodes[name].kill()
            nodes[name] = start(modules[name], env | {"NODE_ID": name, "SWARM_EXPECTED_WORKERS": "1"})
        written = share.at / "experiments" / "test" / "rollouts" / "round_0" / "stage_0"
        eventually(lambda: nodes["anna"].says("heartbeat.failed") > noticed, "anna to notice")
        eventually(lambda: (written / "ben.json").exists(), "ben to begin in the empty folder")
        found += sorted(share.at.rglob("*anna*"))
        share.come_back()
        for name in ("clock", "ben"):
            assert nodes[name].wait() == 1, "which has a service manager start it again"
            assert "start the node anew" in nodes[name].output
            nodes[name] = start(modules[name], env | {"NODE_ID": name})
        assert {name: node.wait() for name, node in nodes.items()} == dict.fromkeys(nodes, 0)
        assert all("Traceback" not in node.output for node in nodes.values())
    assert found == [], "who was there before writes nothing under the mount point"
    for name in WORKERS:
        assert [row["round"] for row in rows(share.disk, name)] == list(range(ROUNDS)), name
    checked = run_swarm(settings(share) | {"GDRIVE_PATH": str(share.disk)}, "validate", "--partial")
    assert checked.returncode == 0, checked.stdout
