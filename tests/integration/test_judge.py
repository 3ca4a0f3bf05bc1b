"""A judge beside a real swarm: it hears nearly every node in every round, and changes nothing."""

import json

import pytest

from swarm.cli.run_flags import UP_DEFAULTS
from tests.integration.swarms import daemons, environment, json_lines, layout, rollouts, rows, run_swarm, well

pytestmark = pytest.mark.engine

NODES, ROUNDS = ("worker-0", "worker-1"), 4
LEARNED = ("round", "my_reward", "loss", "tokens_generated", "task_rewards", "updated")


def up(env):
    well(env, "up", "--nodes", "2", "--in-process")


def test_a_judged_swarm_answers_nearly_everything_and_learns_what_it_would_have_without(tmp_path):
    alone, judged = tmp_path / "alone", tmp_path / "judged"
    up(environment(alone, MAX_ROUNDS=ROUNDS))
    env = environment(judged, MAX_ROUNDS=ROUNDS)
    with daemons() as start:
        judge = start("services.judge", env)
        up(env)
        assert judge.wait() == 0, judge.output
    found = json_lines(layout(judged).judge_file)
    slots = [(row["node_id"], row["round"]) for row in found]
    assert len(slots) == len(set(slots)), "one row per node and round"
    assert len(slots) >= 0.75 * len(NODES) * ROUNDS, judge.output
    for node in NODES:
        assert rollouts(alone, node) == rollouts(judged, node)
        here, there = ([[row[c] for c in LEARNED] for row in rows(path, node)] for path in (alone, judged))
        assert here == there
    well(env, "validate")
    status = json.loads(run_swarm(env, "status", "--json").stdout)
    assert {node["node"]: node["live"] for node in status["nodes"]}["judge"] is False, "it is nobody's peer"
    assert "judge" not in {file.stem for file in layout(judged).peers.iterdir()}

    well(env, "judge", "run")
    assert json_lines(layout(judged).judge_file) == found, "a judge that comes back writes nothing twice"

    well(env, "judge", "exam", "--questions", "1")
    sat = json.loads(layout(judged).exam_file.read_bytes())
    assert {(row["node_id"], row["rounds_done"]) for row in sat} == {(n, r) for n in NODES for r in (0, ROUNDS)}
    assert len(sat) == 2 * 2 * len(UP_DEFAULTS["tasks"])
