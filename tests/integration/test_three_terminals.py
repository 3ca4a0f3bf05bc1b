"""A coordinator and workers, each started by itself as in terminals of their own."""

import pytest

from tests.integration.swarms import daemons, environment, events, eventually, layout, rows

pytestmark = pytest.mark.timeout(240)


def test_nodes_started_in_any_order_find_each_other_and_run_every_round(tmp_path):
    env = environment(tmp_path, SWARM_EXPECTED_WORKERS=2)
    with daemons() as start:
        early = start("services.worker", env, "--node-id", "early")
        eventually(lambda: events(tmp_path, "early", "node.ready"), "the first worker")
        coordinator = start("services.coordinator", env)
        late = start("services.worker", env, "--node-id", "late")
        assert [d.wait() for d in (coordinator, early, late)] == [0, 0, 0], early.output + late.output
    for node in ("early", "late"):
        assert [row["round"] for row in rows(tmp_path, node)] == [0, 1, 2, 3]
        assert all(row["peers_heard"] == 1 and row["total_agents"] == 2 for row in rows(tmp_path, node))
    rounds = sorted(folder.name for folder in layout(tmp_path).rollouts.iterdir())
    assert rounds == ["round_0", "round_1", "round_2", "round_3"]


def test_a_worker_killed_in_mid_round_resumes_and_the_others_lose_no_round(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=40, SWARM_EXPECTED_WORKERS=2, CHECKPOINT_INTERVAL=2)
    with daemons() as start:
        coordinator = start("services.coordinator", env)
        steady = start("services.worker", env, "--node-id", "steady")
        victim = start("services.worker", env, "--node-id", "victim")
        eventually(lambda: len(rows(tmp_path, "victim")) >= 5, "five rounds of the victim")
        victim.kill()
        before = [row["round"] for row in rows(tmp_path, "victim")]
        victim = start("services.worker", env, "--node-id", "victim")
        codes = [d.wait() for d in (coordinator, steady, victim)]
        assert codes == [0, 0, 0], victim.output + steady.output
    assert [row["round"] for row in rows(tmp_path, "steady")] == list(range(40))
    resumed = events(tmp_path, "victim", "node.ready")[-1]
    assert resumed["checkpoint_round"] > 0
    assert resumed["next_round"] == before[-1] + 1
    numbers = [row["round"] for row in rows(tmp_path, "victim")]
    assert numbers == sorted(set(numbers)), "a round was done twice"
    assert numbers[-1] == 39
    total = sum(row["my_reward"] for row in rows(tmp_path, "victim"))
    assert rows(tmp_path, "victim")[-1]["cumulative_reward"] == pytest.approx(total)


def test_a_second_node_with_a_live_nodes_id_refuses_to_start(tmp_path):
    env = environment(tmp_path)
    with daemons() as start:
        start("services.worker", env, "--node-id", "twin")
        eventually(lambda: layout(tmp_path).peer_file("twin").exists(), "the first twin")
        second = start("services.worker", env, "--node-id", "twin")
        assert second.wait() == 1
        assert "twin" in second.output
        assert "choose another NODE_ID" in second.output


def test_a_second_coordinator_refuses_to_start(tmp_path):
    env = environment(tmp_path)
    with daemons() as start:
        start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "coordinator.ready"), "the first coordinator")
        second = start("services.coordinator", env, "--node-id", "usurper")
        assert second.wait() == 1
        assert "already owns the clock" in second.output
