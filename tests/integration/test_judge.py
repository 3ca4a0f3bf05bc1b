"""A judge beside a real swarm: it hears nearly every node in every round."""

import json

import pytest

from swarm.cli.run_flags import UP_DEFAULTS
from tests.integration.swarms import daemons, environment, json_lines, layout, run_swarm, well

pytestmark = pytest.mark.engine

NODES, ROUNDS = ("worker-0", "worker-1"), 4


def test_a_judged_swarm_answers_nearly_everything(tmp_path):
    """That it learns what it would have without: tests/unit/node/worker/test_features.py."""
    env = environment(tmp_path, MAX_ROUNDS=ROUNDS)
    with daemons() as start:
        judge = start("services.judge", env)
        well(env, "up", "--nodes", "2", "--in-process")
        assert judge.wait() == 0, judge.output
    found = json_lines(layout(tmp_path).judge_file)
    slots = [(row["node_id"], row["round"]) for row in found]
    assert len(slots) == len(set(slots)), "one row per node and round"
    assert len(slots) >= 0.75 * len(NODES) * ROUNDS, judge.output
    well(env, "validate")
    status = json.loads(run_swarm(env, "status", "--json").stdout)
    assert {node["node"]: node["live"] for node in status["nodes"]}["judge"] is False, "it is nobody's peer"
    assert "judge" not in {file.stem for file in layout(tmp_path).peers.iterdir()}

    well(env, "judge", "run")
    assert json_lines(layout(tmp_path).judge_file) == found, "a judge that comes back writes nothing twice"

    well(env, "judge", "exam", "--questions", "1")
    sat = json.loads(layout(tmp_path).exam_file.read_bytes())
    assert {(row["node_id"], row["rounds_done"]) for row in sat} == {(n, r) for n in NODES for r in (0, ROUNDS)}
    assert len(sat) == 2 * 2 * len(UP_DEFAULTS["tasks"])
