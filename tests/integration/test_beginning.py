"""Terminals that are opened one after the other, with real processes and nobody's number of workers."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from swarm.records.files import read_peer
from swarm.records.liveness import STARTING, STOPPED
from tests.integration.swarms import LIGHT, daemons, environment, eventually, layout, rows

pytestmark = pytest.mark.engine


def status_of(path: Path, node: str) -> str | None:
    peer = read_peer(layout(path).run, node)
    return peer and peer.status


def test_a_worker_that_waits_for_its_coordinator_is_registered_and_leaves_when_it_is_stopped(tmp_path: Path) -> None:
    with daemons() as start:
        worker = start("swarm", environment(tmp_path, NODE_ID="anna"), "node")
        eventually(lambda: status_of(tmp_path, "anna") == STARTING, "the registration of a worker that waits")
        worker.signal(signal.SIGINT)
        worker.wait()
    assert status_of(tmp_path, "anna") == STOPPED, "it said goodbye"


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
