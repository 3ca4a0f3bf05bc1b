"""A coordinator and workers, each started by itself as in terminals of their own; two of one name."""

import signal

import pytest

from tests.integration.swarms import LIGHT, daemons, environment, events, eventually, json_lines, layout, rows


@pytest.mark.engine
def test_nodes_started_in_any_order_find_each_other_and_run_every_round(tmp_path):
    env = environment(tmp_path, SWARM_EXPECTED_WORKERS=2)
    with daemons() as start:
        early = start("services.worker", env, "--node-id", "early")
        coordinator = start("services.coordinator", env)
        late = start("services.worker", env, "--node-id", "late")
        assert [d.wait() for d in (coordinator, early, late)] == [0, 0, 0], early.output + late.output
    for node in ("early", "late"):
        assert [row["round"] for row in rows(tmp_path, node)] == [0, 1, 2, 3]
        assert all(row["peers_heard"] == 1 and row["total_agents"] == 2 for row in rows(tmp_path, node))
    rounds = sorted(folder.name for folder in layout(tmp_path).rollouts.iterdir())
    assert rounds == ["round_0", "round_1", "round_2", "round_3"]


def test_a_worker_killed_in_mid_round_resumes_and_the_others_lose_no_round(tmp_path):
    short = {"SWARM_EXPECTED_WORKERS": 2, "SWARM_LIVENESS_TIMEOUT": 4}
    env = environment(tmp_path, MAX_ROUNDS=100_000, CHECKPOINT_INTERVAL=2, **short)
    with daemons() as start:
        coordinator = start("services.coordinator", env)
        steady = start(LIGHT, env | {"NODE_ID": "steady"})
        victim = start(LIGHT, env | {"NODE_ID": "victim"})
        eventually(lambda: len(rows(tmp_path, "victim")) >= 5, "five rounds of the victim")
        victim.kill()
        before = [row["round"] for row in rows(tmp_path, "victim")]
        eventually(lambda: rows(tmp_path, "steady")[-1]["round"] > before[-1] + 3, "the others to go on without it")
        victim = start(LIGHT, env | {"NODE_ID": "victim"})
        eventually(lambda: len(rows(tmp_path, "victim")) >= len(before) + 3, "three more rounds of the victim")
        for daemon in (victim, steady, coordinator):
            daemon.signal(signal.SIGTERM)
        assert [d.wait() for d in (coordinator, steady, victim)] == [143, 143, 143], victim.output + steady.output

    everybody_else = [row["round"] for row in rows(tmp_path, "steady")]
    assert everybody_else == list(range(len(everybody_else)))
    resumed = events(tmp_path, "victim", "node.ready")[-1]
    assert resumed["checkpoint_round"] > 0
    assert resumed["next_round"] == before[-1] + 1
    after = rows(tmp_path, "victim")
    numbers = [row["round"] for row in after]
    assert numbers == sorted(set(numbers)), "a round was done twice"
    assert numbers[len(before)] > before[-1] + 3, "it did not skip to where the clock was"
    assert after[-1]["cumulative_reward"] == pytest.approx(sum(row["my_reward"] for row in after))


def test_a_refused_second_node_writes_nothing_into_the_log_of_the_first(tmp_path):
    env = environment(tmp_path)
    with daemons() as start:
        first = start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "workers.awaited"), "the first one's start")
        second = start("services.coordinator", env)
        assert second.wait() == 2, second.output
        assert "is taken" in second.output
        first.signal(signal.SIGTERM)
        assert first.wait() == 143
    assert {event["pid"] for event in events(tmp_path, "coordinator", "node.starting")} == {first.process.pid}
    said = [event["event"] for event in json_lines(layout(tmp_path).events_file("coordinator"))]
    assert "process.failed" not in said
    assert said[0] == "node.starting"
    assert "is taken" not in layout(tmp_path).stdout_file("coordinator").read_text()
