"""`swarm up --in-process`: one process, and everything in the folder as from several."""

import json

import pytest

from tests.integration.swarms import environment, events, json_lines, layout, rollouts, rows, well

pytestmark = pytest.mark.engine

NODES = ("worker-0", "worker-1")


def up(path, *flags, **settings):
    """A swarm of two to its end; its output."""
    env = environment(path, NUM_TRAIN_SAMPLES=3, NUM_GENERATIONS=8, SWARM_MAX_NEW_TOKENS=24, **settings)
    done = well(env, "up", "--nodes", "2", *flags)
    return done.stdout


def test_one_process_gives_the_rollouts_and_rewards_that_several_give_in_folders_of_their_own(tmp_path):
    one, several = tmp_path / "one", tmp_path / "several"
    models = ("--model", "tiny-2-qwen2-content,tiny-2-gpt2")
    output = up(one, "--in-process", *models)
    up(several, *models)
    columns = ("round", "my_reward", "loss", "tokens_generated", "external_by_peer", "model", "gather_timed_out")
    for node in NODES:
        assert [row["gather_timed_out"] for row in rows(several, node)] == [False] * 4, "somebody was late"
        assert rollouts(one, node) == rollouts(several, node)
        here, there = ([[row[c] for c in columns] for row in rows(path, node)] for path in (one, several))
        assert here == there
        logged = json_lines(layout(one).events_file(node))
        assert {event["node_id"] for event in logged} == {node}
        assert len(events(one, node, "node.ready")) == 1
        assert len(events(one, node, "round.completed")) == 4
        assert layout(one).stdout_file(node).read_text().count("round.completed") == 4
    assert any(row["loss"] for node in NODES for row in rows(one, node)), "no update happened, so little was compared"
    assert len({json.loads(layout(one).peer_file(node).read_bytes())["pid"] for node in NODES}) == 1
    assert "worker-*     trains" in output, "a line for all that share a process"
