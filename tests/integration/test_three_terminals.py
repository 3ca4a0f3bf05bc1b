"""Nodes of all roles, each started by itself as in terminals of their own; two of one name."""

import json
import signal

import pytest

from tests.integration.swarms import (
    LIGHT,
    daemons,
    environment,
    events,
    eventually,
    json_lines,
    layout,
    rollouts,
    rows,
    run_swarm,
    well,
)

NODES, ROUNDS = ("early", "late"), 4
TASKS = ("binary_matrix", "fraction_simplification")


@pytest.mark.engine
def test_nodes_started_in_any_order_run_every_round_and_a_judge_and_an_evaluator_hear_them_and_hold_nobody_up(tmp_path):
    """That a judged swarm learns what it would have without: tests/unit/node/worker/test_held_out.py."""
    env = environment(tmp_path, MAX_ROUNDS=ROUNDS, SWARM_EXPECTED_WORKERS=2, NUM_TRAIN_SAMPLES=3)
    env |= {"NUM_TRANSPLANT_TREES": "1", "SWARM_TASKS": ",".join(TASKS)}
    with daemons() as start:
        judge = start("services.judge", env)
        evaluator = start("swarm", env | {"NODE_ROLE": "evaluator", "NODE_ID": "judy"}, "node")
        early = start("services.worker", env, "--node-id", "early")
        coordinator = start("services.coordinator", env)
        late = start("services.worker", env, "--node-id", "late")
        ends = (coordinator, early, late, evaluator, judge)
        assert [end.wait() for end in ends] == [0] * 5, [end.output[-2000:] for end in ends]
    for node in NODES:
        assert [row["round"] for row in rows(tmp_path, node)] == list(range(ROUNDS))
        assert all(row["peers_heard"] == 1 and row["total_agents"] == 2 for row in rows(tmp_path, node))
    rounds = sorted(folder.name for folder in layout(tmp_path).rollouts.iterdir())
    assert rounds == [f"round_{number}" for number in range(ROUNDS)]
    well(env, "validate")
    heard_by_an_evaluator(tmp_path, env)
    heard_by_a_judge(tmp_path, env)


def heard_by_an_evaluator(path, env):
    """It verifies all groups, votes, and is in no mean."""
    own = rows(path, "judy")
    assert [row["round"] for row in own] == list(range(ROUNDS))
    for row in own:
        assert row["role"] == "evaluator"
        assert (row["local_groups"], row["external_groups"], row["updated"]) == (0, 0, False)
        heard = [node for node, groups in row["accepted_by_peer"].items() if groups == 3]
        earned = {node: rows(path, node)[row["round"]]["my_reward"] for node in heard}
        assert {node: row["peer_rewards"][node] for node in heard} == pytest.approx(earned), "its verdicts are theirs"
        vote = json.loads(layout(path).winners_file(row["round"], "judy").read_bytes())
        assert set(vote["winners"]) <= set(NODES)
    accepted = {node: sum(row["accepted_by_peer"].get(node, 0) for row in own) for node in NODES}
    assert accepted == dict.fromkeys(NODES, 3 * ROUNDS), "all of them, not J draws, late or not: nobody waits for it"
    assert rollouts(path, "judy") == {}
    assert not list(layout(path).root.glob("rewards/*/*/judy.json"))
    summary = json.loads(run_swarm(env, "summary", "--json").stdout)
    measured = [row["my_reward"] for node in NODES for row in rows(path, node) if row["round"] < ROUNDS // 2]
    assert summary["reward"]["first"] == pytest.approx(sum(measured) / len(measured))


def heard_by_a_judge(path, env):
    """It has asked nearly every node in every round, and is nobody's peer."""
    found = json_lines(layout(path).judge_file)
    slots = [(row["node_id"], row["round"]) for row in found]
    assert len(slots) == len(set(slots)), "one row per node and round"
    assert len(slots) >= 0.75 * len(NODES) * ROUNDS
    status = json.loads(run_swarm(env, "status", "--json").stdout)
    shown = {node["node"]: node for node in status["nodes"]}
    assert shown["judge"]["live"] is False
    assert shown["judy"]["role"] == "evaluator"
    assert "judge" not in {file.stem for file in layout(path).peers.iterdir()}

    well(env, "judge", "run")
    assert json_lines(layout(path).judge_file) == found, "a judge that comes back writes nothing twice"

    well(env, "judge", "exam", "--questions", "1")
    sat = json.loads(layout(path).exam_file.read_bytes())
    assert {(row["node_id"], row["rounds_done"]) for row in sat} == {(n, r) for n in NODES for r in (0, ROUNDS)}
    assert len(sat) == 2 * 2 * len(TASKS)


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
