"""A node whose disk is full when it ends, and stays full until it is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mounted import mounted
from tests.integration.swarms import environment, eventually
from tests.integration.test_disk_trouble import QUICK, a_swarm
from tests.patience import PATIENCE

pytestmark = [pytest.mark.engine]  # it tries for a minute before it gives its place up
ALONE = {"MAX_ROUNDS": 10**6, "SWARM_CLOCK": "own", "NUM_TRANSPLANT_TREES": 0, "SWARM_EXPECTED_WORKERS": 1}


def test_a_node_that_ends_on_a_full_disk_keeps_its_state_says_where_and_goes_on_from_it(tmp_path: Path) -> None:
    tmpfs = ["-t", "tmpfs", "-o", "size=16m", "tmpfs"]
    with mounted(tmp_path / "shared", tmpfs) as disk, a_swarm(disk.seen, tmp_path) as swarm:
        env = environment(disk.folder, **QUICK | ALONE)
        kept = Path(env["XDG_STATE_HOME"]) / "swarm" / "kept"
        node = swarm.start("alice", env, enter=disk.enter)
        eventually(lambda: node.rounds() >= 3, "three rounds")
        with disk.full():
            eventually(lambda: node.says("folder.unwritable"), "the trouble")
            node.process.terminate()
            assert node.process.wait(PATIENCE) == 1, node.output
        done = node.rounds()
        (state,) = kept.rglob("node.json")
        assert str(state.parent) in node.output, "it says where"

        again = swarm.start("alice", env, enter=disk.enter)
        eventually(lambda: again.rounds() >= 2, "rounds behind them")
        eventually(lambda: not [*kept.rglob("node.json")], "the place has it, so the copy goes")
        again.process.terminate()
        assert again.process.wait(PATIENCE) == 143, again.output
        (taken,) = swarm.events("alice", "checkpoint.taken_up")
        assert taken["rounds_done"] == done
        rounds = [row["round"] for row in swarm.rows("alice")]
        assert rounds == list(range(len(rounds)))
        assert len(rounds) >= done + 2
