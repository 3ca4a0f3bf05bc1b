"""What a death costs the others, with real processes and nobody's number of workers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.swarms import LIGHT, daemons, environment, eventually, rows

pytestmark = pytest.mark.engine


@pytest.mark.skipif(sys.platform != "linux", reason="which processes run is read from /proc")
def test_a_killed_worker_of_this_machine_holds_up_no_round_until_a_time_out(tmp_path: Path) -> None:
    quick = {"MAX_ROUNDS": 400, "SWARM_LIVENESS_TIMEOUT": 600}
    with daemons() as start:
        start("services.coordinator", environment(tmp_path, **quick))
        workers = {node: start(LIGHT, environment(tmp_path, NODE_ID=node, **quick)) for node in ("anna", "ben")}
        eventually(lambda: all(rows(tmp_path, node) for node in workers), "a round of both")
        workers["ben"].kill()
        done = len(rows(tmp_path, "anna"))
        eventually(lambda: len(rows(tmp_path, "anna")) > done + 3, "rounds of the other one, long before the time-out")
