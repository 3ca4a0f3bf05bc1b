"""`swarm up --in-process`: one process, and everything in the folder as from several."""

import json
import os
import signal

import pytest

from swarm.cli.fork_server import can_fork
from swarm.provenance import cores
from tests.integration.swarms import daemons, environment, events, eventually, json_lines, layout, rollouts, rows, well

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


GROUPS = pytest.mark.skipif(not can_fork(["cpu"]) or cores() < 2, reason="needs Linux, two cores and no GPU")
"""Elsewhere `swarm up` has a process for each worker, or one for all."""


@pytest.fixture
def two_cores():
    """The processes that are started may use no more."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("flags", "killed", "others"),
    [
        (["--nodes", "2", "--in-process"], ["worker-0", "worker-1"], []),
        pytest.param(["--nodes", "3"], ["worker-1", "worker-2"], ["worker-0"], marks=GROUPS),
    ],
)
@pytest.mark.usefixtures("two_cores")
def test_a_process_that_is_killed_is_started_again_and_all_its_nodes_go_on(tmp_path, flags, killed, others):
    env = environment(tmp_path, MAX_ROUNDS=1000)
    with daemons() as start:
        swarm = start("swarm", env, "up", *flags)
        eventually(lambda: all(rows(tmp_path, node) for node in killed + others), "a round")
        os.kill(json.loads(layout(tmp_path).peer_file(killed[0]).read_bytes())["pid"], signal.SIGKILL)
        for node in killed:
            eventually(lambda node=node: len(events(tmp_path, node, "node.ready")) == 2, f"{node} to be back")
        done = {node: len(rows(tmp_path, node)) for node in killed + others}
        for node, before in done.items():
            eventually(lambda node=node, before=before: len(rows(tmp_path, node)) > before, f"{node} to go on")
        swarm.signal(signal.SIGINT)
        assert swarm.wait() == 130
    for node in done:
        rounds = [row["round"] for row in rows(tmp_path, node)]
        assert rounds == sorted(set(rounds))
    assert [len(events(tmp_path, node, "node.ready")) for node in others] == [1] * len(others)
