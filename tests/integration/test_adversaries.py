"""A real swarm with a liar, a copier, a flooder and a vandal in it; their long-run effect is measured elsewhere
(`python -m tests.adversaries`)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from swarm.views.status import StatusReader
from tests.adversaries.kinds import KINDS
from tests.integration.swarms import daemons, environment, layout, rows
from tests.unit.views.factories import run_of

pytestmark = pytest.mark.engine

ROUNDS = 5


def test_honest_nodes_learn_from_each_other_alone_and_name_those_who_mean_harm(tmp_path: Path) -> None:
    env = environment(
        tmp_path,
        MAX_ROUNDS=ROUNDS,
        COORDINATOR_ROUND_INTERVAL=60,
        SWARM_EXPECTED_WORKERS=2 + len(KINDS),
        CHECKPOINT_INTERVAL=0,
    )
    with daemons() as start:
        coordinator = start("services.coordinator", env)
        strangers = start("tests.adversaries.stranger", env, *KINDS)
        workers = start("services.workers", env | {"NODE_ID": "worker"}, "--nodes", "2")
        assert workers.wait() == 0, workers.output
        assert [one.wait() for one in (coordinator, strangers)] == [0, 0], coordinator.output + strangers.output
    for node, peer in (("worker-0", "worker-1"), ("worker-1", "worker-0")):
        found = rows(tmp_path, node)
        assert [row["round"] for row in found] == list(range(ROUNDS))
        assert {name for row in found for name in row["external_by_peer"]} <= {peer}
        assert sum(row["pool_groups"] for row in found) > 0
    status = StatusReader(run_of(layout(tmp_path)), liveness_timeout=5.0).read(time.time())
    named = {one.peer for one in status.distrusted if one.refused_by == ["worker-0", "worker-1"]}
    assert set(KINDS) <= named
