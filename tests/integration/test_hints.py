"""Hints, provoked by runs of real nodes that were made useless for them."""

import json

import pytest

from tests.integration.swarms import LIGHT, daemons, environment, events, run_swarm

pytestmark = pytest.mark.engine

ROUNDS = 12
OF_THE_MACHINE = {"memory-75", "memory-90", "disk-75", "disk-90"}
"""How full the machine is that the tests run on is not theirs."""


def hints(path, env):
    """Code -> the nodes that `swarm status` gives it to; `summary` and `doctor` say the same codes."""
    status = json.loads(run_swarm(env, "status", "--json").stdout)
    found = {hint["code"]: set(hint["nodes"]) for hint in status["hints"] if hint["code"] not in OF_THE_MACHINE}
    summary, doctor = run_swarm(env, "summary").stdout, run_swarm(env, "doctor", "--path", str(path)).stdout
    for code in found:
        assert f"docs/hints.md#{code}" in summary
        assert f"docs/hints.md#{code}" in doctor
    return found


def said(path, node):
    """The codes in a node's own log, each once."""
    return [event["code"] for event in events(path, node, "hint") if event["code"] not in OF_THE_MACHINE]


def run(path, *workers, **settings):
    """A coordinator and workers, each with its own settings, to their end."""
    env = environment(path, **{"MAX_ROUNDS": ROUNDS, "SWARM_EXPECTED_WORKERS": len(workers)} | settings)
    with daemons() as start:
        nodes = [start(LIGHT, env | {name: str(value) for name, value in own.items()}) for own in workers]
        nodes.append(start("services.coordinator", env))
        assert [node.wait() for node in nodes] == [0] * len(nodes), nodes[0].output
    return env


SMALL = {"NODE_ID": "anna", "SWARM_MAX_FILE_BYTES": 1024}
"""It refuses whatever others publish."""


def test_a_swarm_of_useless_nodes_is_told_who_is_useless_and_why(tmp_path):
    alone = {"NODE_ID": "carl", "NUM_TRANSPLANT_TREES": 0}
    env = run(tmp_path, SMALL, {"NODE_ID": "bert"}, alone, NUM_GENERATIONS=16)
    found = hints(tmp_path, env)
    assert found["nothing-heard"] == found["quarantine"] == {"anna"}
    assert found["trains-alone"] == {"carl"}
    assert {"nothing-heard", "quarantine"} == set(said(tmp_path, "anna"))
    assert said(tmp_path, "bert") == []
