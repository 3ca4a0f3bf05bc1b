"""A swarm whose place is lost goes on from the copy that `swarm copy --follow` made of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from swarm.records.files import read_clock
from tests.integration.swarms import LIGHT, daemons, environment, eventually, layout, rows, well

pytestmark = pytest.mark.engine

ROUNDS = 24
NODES = ("alice", "bob")


def test_a_swarm_whose_place_is_lost_at_a_random_moment_goes_on_from_its_copy(tmp_path: Path) -> None:
    here, mirror = tmp_path / "here", tmp_path / "mirror"
    env = environment(here, MAX_ROUNDS=ROUNDS, CHECKPOINT_INTERVAL=5, SWARM_EXPECTED_WORKERS=2, SWARM_REDO_ROUNDS=3)
    env |= {"SWARM_LIVENESS_TIMEOUT": "2", "COORDINATOR_ROUND_INTERVAL": "10", "LIGHT_STEP": "0.05"}
    with daemons() as start:
        start("services.coordinator", env | {"NODE_ID": "clock"})
        for node in NODES:
            start(LIGHT, env | {"NODE_ID": node})
        eventually(lambda: (layout(here).root / "experiment.json").exists(), "the experiment")
        start("swarm", env, "copy", str(here), str(mirror), "--experiment", "test", "--follow", "--every", "0.1")
        lost_at = random.randrange(6, 16)
        eventually(lambda: len(rows(mirror, "alice")) >= lost_at, f"round {lost_at} in the mirror")
    shutil.rmtree(here)  # all were killed before
    before = {node: len(rows(mirror, node)) for node in NODES}
    env |= {"GDRIVE_PATH": str(mirror)}
    with daemons() as start:
        ends = [start("services.coordinator", env | {"NODE_ID": "clock"})]
        ends += [start(LIGHT, env | {"NODE_ID": node}) for node in NODES]
        assert [end.wait() for end in ends] == [0, 0, 0], [end.output[-2000:] for end in ends]
    clock = read_clock(layout(mirror).run)
    assert clock.state, clock.problem
    assert clock.state.finished
    for node in NODES:
        assert before[node] >= 1
        assert [row["round"] for row in rows(mirror, node)] == list(range(ROUNDS)), "each round once"
    well(env, "validate", "--experiment", "test", "--path", str(mirror))
