"""A node that only verifies and votes: it hears everything, holds nobody up, and spoils no figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.swarms import daemons, environment, layout, rollouts, rows, run_swarm, well

pytestmark = pytest.mark.engine

ROUNDS = 4
NODES = ("anna", "ben")


def test_an_evaluator_verifies_all_groups_votes_and_is_in_no_mean(tmp_path: Path) -> None:
    env = environment(
        tmp_path, MAX_ROUNDS=ROUNDS, SWARM_EXPECTED_WORKERS=3, NUM_TRAIN_SAMPLES=3, NUM_TRANSPLANT_TREES=1
    )
    with daemons() as start:
        ends = [start("swarm", env | {"NODE_ROLE": "coordinator", "SWARM_EXPECTED_WORKERS": "2"}, "node")]
        evaluator = start("swarm", env | {"NODE_ROLE": "evaluator", "NODE_ID": "judy"}, "node")
        ends += [start("swarm", env | {"NODE_ID": node}, "node") for node in NODES]
        assert [end.wait() for end in [*ends, evaluator]] == [0] * 4, [end.output[-2000:] for end in [*ends, evaluator]]
    own = rows(tmp_path, "judy")
    assert [row["round"] for row in own] == list(range(ROUNDS))
    for row in own:
        assert row["role"] == "evaluator"
        assert (row["local_groups"], row["external_groups"], row["updated"]) == (0, 0, False)
        heard = [node for node, groups in row["accepted_by_peer"].items() if groups == 3]
        earned = {node: rows(tmp_path, node)[row["round"]]["my_reward"] for node in heard}
        assert {node: row["peer_rewards"][node] for node in heard} == pytest.approx(earned), "its verdicts are theirs"
        vote = json.loads(layout(tmp_path).winners_file(row["round"], "judy").read_bytes())
        assert set(vote["winners"]) <= set(NODES)
    accepted = {node: sum(row["accepted_by_peer"].get(node, 0) for row in own) for node in NODES}
    assert accepted == dict.fromkeys(NODES, 3 * ROUNDS), "all of them, not J draws, late or not: nobody waits for it"
    assert rollouts(tmp_path, "judy") == {}
    assert not list(layout(tmp_path).root.glob("rewards/*/*/judy.json"))
    summary = json.loads(run_swarm(env, "summary", "--json").stdout)
    measured = [row["my_reward"] for node in NODES for row in rows(tmp_path, node) if row["round"] < ROUNDS // 2]
    assert summary["reward"]["first"] == pytest.approx(sum(measured) / len(measured))
    status = json.loads(run_swarm(env, "status", "--json").stdout)
    assert next(node for node in status["nodes"] if node["node"] == "judy")["role"] == "evaluator"
    well(env | {"SWARM_EXPECTED_WORKERS": "2"}, "validate")
