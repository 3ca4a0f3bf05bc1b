"""Whose clock it is: a coordinator that dies, one that takes over, and none at all."""

from __future__ import annotations

import pytest

from swarm.records.files import read_state
from tests.integration.swarms import LIGHT, daemons, environment, events, eventually, layout, rows, run_swarm, well
from tests.patience import PATIENCE

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


def test_a_standby_takes_over_and_when_it_is_dead_too_workers_finish_by_themselves_and_no_round_goes_backwards(
    tmp_path,
):
    rounds = 150
    env = environment(tmp_path, MAX_ROUNDS=rounds, SWARM_COORDINATOR_PATIENCE=1, **SHORT)
    seen = [0]

    def goes_on(many: int) -> bool:
        state = read_state(layout(tmp_path).run)
        seen.append(state.round if state else -1)
        return len(opened(tmp_path, "spare")) >= many

    with daemons() as start:
        coordinator = start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "coordinator.ready"), "the coordinator")
        spare = start("services.coordinator", env, "--standby", "--node-id", "spare")
        workers = [start(LIGHT, env | {"NODE_ID": name}) for name in ("alice", "bob")]
        eventually(lambda: len(rows(tmp_path, "alice")) >= 3, "three rounds")
        eventually(lambda: events(tmp_path, "spare", "coordinator.stands_by"), "the standby")
        assert not opened(tmp_path, "spare")
        coordinator.kill()
        eventually(lambda: goes_on(10), "ten rounds of the standby")
        spare.kill()
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].output
    assert seen == sorted(seen)
    before, after = opened(tmp_path, "coordinator"), opened(tmp_path, "spare")
    assert after[0] >= before[-1]
    assert after == sorted(set(after))
    state = read_state(layout(tmp_path).run)
    assert state is not None
    assert not state.finished
    for name in ("alice", "bob"):
        done = rows(tmp_path, name)
        numbers = [row["round"] for row in done]
        assert numbers == sorted(set(numbers)), "a round was done twice, or one after a later one"
        assert numbers[-1] == rounds - 1 > after[-1]
        clocks = {row["round"]: row["clock"] for row in done}
        assert (clocks[0], clocks[rounds - 1]) == ("coordinator", "own")
        assert any(clocks.get(number) == "coordinator" for number in after), "it followed the standby"
        last = max(number for number in numbers if clocks[number] == "coordinator")
        alone = [row for row in done if row["round"] > last]
        assert [row["round"] for row in alone] == list(range(last + 1, rounds)), "by themselves they do each round"
        assert any(row["pool_groups"] for row in alone)
        groups = [group for _, group in external(done)]
        assert len(groups) == len(set(groups))
    well(env, "validate", "--partial")


def test_a_swarm_without_a_coordinator_is_whole_though_its_reader_has_seen_enough(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=5)
    with daemons() as start:
        up = start("swarm", env, "up", "--nodes", "2", "--no-coordinator", "--in-process", piped=True)
        assert up.process.stdout is not None
        assert "coordinator" not in up.process.stdout.readline()
        up.process.stdout.close()
        assert up.process.wait(PATIENCE) == 0
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
