"""Whose clock it is: a coordinator that dies, one that takes over, and none at all."""

from __future__ import annotations

import signal

import pytest

from swarm.records.files import read_state
from tests.integration.swarms import LIGHT, daemons, environment, events, eventually, layout, rows, run_swarm, well

pytestmark = pytest.mark.engine

SHORT = {
    "SWARM_LIVENESS_TIMEOUT": 4,
    "COORDINATOR_ROUND_INTERVAL": 60,
    "SWARM_EXPECTED_WORKERS": 2,
    "CHECKPOINT_INTERVAL": 0,
}


def opened(path, node):
    return [event["round"] for event in events(path, node, "round.opened")]


def external(done):
    """The rows with the groups that they trained on, by name."""
    return [(row, group) for row in done for group in row["trained_on"]]


def test_workers_finish_by_themselves_when_their_coordinator_is_dead(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=60, SWARM_COORDINATOR_PATIENCE=1, **SHORT)
    with daemons() as start:
        coordinator = start("services.coordinator", env)
        workers = [start(LIGHT, env | {"NODE_ID": name}) for name in ("alice", "bob")]
        eventually(lambda: len(rows(tmp_path, "alice")) >= 3, "three rounds")
        coordinator.kill()
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].output
    state = read_state(layout(tmp_path).run)
    assert state is not None
    assert not state.finished
    for name in ("alice", "bob"):
        done = rows(tmp_path, name)
        assert [row["round"] for row in done] == list(range(60))
        clocks = [row["clock"] for row in done]
        assert clocks == sorted(clocks), "coordinator before own"
        assert (clocks[0], clocks[-1]) == ("coordinator", "own")
        assert len(events(tmp_path, name, "clock.own")) == 1
        assert any(row["pool_groups"] for row in done if row["clock"] == "own")
        groups = [group for _, group in external(done)]
        assert len(groups) == len(set(groups))
    well(env, "validate")


def test_a_standby_takes_over_and_no_round_goes_backwards(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=100_000, SWARM_COORDINATOR_PATIENCE=1, **SHORT)
    with daemons() as start:
        coordinator = start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "coordinator.ready"), "the coordinator")
        spare = start("services.coordinator", env, "--standby", "--node-id", "spare")
        workers = [start(LIGHT, env | {"NODE_ID": name}) for name in ("alice", "bob")]
        eventually(lambda: len(rows(tmp_path, "alice")) >= 3, "three rounds")
        eventually(lambda: events(tmp_path, "spare", "coordinator.stands_by"), "the standby")
        assert not opened(tmp_path, "spare")
        coordinator.kill()
        seen = [0]

        def goes_on() -> bool:
            state = read_state(layout(tmp_path).run)
            seen.append(state.round if state else -1)
            return len(opened(tmp_path, "spare")) >= 10

        eventually(goes_on, "ten rounds of the standby")
        for daemon in (*workers, spare):
            daemon.signal(signal.SIGTERM)
        assert [daemon.wait() for daemon in (*workers, spare)] == [143] * 3, spare.output + workers[0].output
    assert seen == sorted(seen)
    before, after = opened(tmp_path, "coordinator"), opened(tmp_path, "spare")
    assert after, "the standby never opened a round"
    assert after[0] >= before[-1]
    assert after == sorted(set(after))
    for name in ("alice", "bob"):
        numbers = [row["round"] for row in rows(tmp_path, name)]
        assert numbers == sorted(set(numbers)), "a round was done twice, or one after a later one"
        assert numbers[-1] > after[0]
    well(env, "validate", "--partial")


def test_a_swarm_without_a_coordinator_is_whole(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=5)
    up = well(env, "up", "--nodes", "2", "--no-coordinator", "--in-process")
    assert "--role coordinator" not in up.stdout
    assert "5/5 done" in up.stdout
    assert not layout(tmp_path).state_file.exists()
    for number in range(2):
        done = rows(tmp_path, f"worker-{number}")
        assert [row["round"] for row in done] == list(range(5))
        assert {row["clock"] for row in done} == {"own"}
        assert sum(row["pool_groups"] for row in done) > 0
        assert all(
            int(group.split("/")[1]) in range(row["round"] - 2, row["round"] + 3) for row, group in external(done)
        )
    well(env, "validate")
    coordinator = run_swarm(env, "node", "--role", "coordinator")
    assert coordinator.returncode == 2
    assert "SWARM_CLOCK was 'own', now 'coordinator'" in coordinator.stderr
