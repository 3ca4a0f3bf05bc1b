"""A swarm of workers as processes, whose completions a server writes that has a model inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.stub_vllm import serving
from tests.integration.swarms import daemons, environment, events, eventually, layout, rows, well

pytestmark = pytest.mark.engine
NODES = ("w0", "w1")
ROUNDS = 8


def test_two_workers_learn_from_a_servers_completions_and_redo_them_exactly_after_a_kill(tmp_path: Path) -> None:
    shared, adapters = tmp_path / "shared", tmp_path / "adapters"
    with serving("tiny-2-qwen2") as stub, daemons() as start:
        env = environment(
            shared,
            SEED=7,
            SWARM_PROFILE="tiny-2",  # of whose groups more are informative
            MAX_ROUNDS=ROUNDS,
            NUM_GENERATIONS=8,
            SWARM_ADAPTER="lora",
            SWARM_ADAPTER_RANK=4,
            SWARM_ADAPTER_FOLDER=adapters,
            SWARM_GENERATION_SERVER=stub.url,
            SWARM_EXPECTED_WORKERS=",".join(NODES),
            SWARM_PUBLISH_LOGPROBS="true",
            CHECKPOINT_INTERVAL=100,
        )
        for life in range(2):
            coordinator = start("services.coordinator", env)
            nodes = [coordinator, *(start("services.worker", env, "--node-id", name) for name in NODES)]
            if life:
                assert [node.wait() for node in nodes] == [0, 0, 0], nodes[1].output + nodes[2].output
                break
            eventually(lambda: all(len(rows(shared, name)) >= 3 for name in NODES), "three rounds")
            for node in nodes:
                node.kill()
            asked = len(stub.completions)
            lived = {name: len(rows(shared, name)) for name in NODES}
            for registration in layout(shared).peers.iterdir():
                registration.unlink()  # as if it were long ago

    for name in NODES:
        (redone,) = events(shared, name, "rounds.redone")
        assert redone["count"] == redone["exact"] == lived[name]
        assert not events(shared, name, "rounds.lost")
        found = rows(shared, name)
        assert [row["round"] for row in found] == list(range(ROUNDS))
        assert any(row["tokens_trained"] and row["importance_tokens"] for row in found), "nothing was learned"
        assert any(row["external_groups"] for row in found)
        assert all(row["server_gap"] < 1e-4 and not row["server_away"] for row in found if "server_gap" in row)
        assert max(row["logprob_drift"] for row in found) < 1e-4
        versions = [loaded for loaded in stub.history if loaded.startswith(f"test.{name}.")]
        assert len(versions) >= 3, "updates were published"
    assert len(stub.completions) - asked <= 2 * (sum(ROUNDS - count for count in lived.values())), "redo asks nobody"
    assert len(stub.loaded) == len(NODES), "older versions are unloaded"
    well(env, "validate", "--path", str(shared), "--experiment", "test", "--json")


def test_a_worker_whose_server_is_away_ends_with_a_clear_error_and_publishes_nothing(tmp_path: Path) -> None:
    with serving("tiny-2-qwen2") as stub:
        url = stub.url
    env = environment(
        tmp_path / "shared",
        SWARM_ADAPTER="lora",
        SWARM_ADAPTER_FOLDER=tmp_path / "adapters",
        SWARM_GENERATION_SERVER=url,
        SWARM_GENERATION_SERVER_PATIENCE=0.1,
        SWARM_CLOCK="own",
        NUM_TRANSPLANT_TREES=0,
    )
    with daemons() as start:
        node = start("services.worker", env, "--node-id", "w0")
        assert node.wait() == 1
    assert "no usable reply for 0.1 s" in node.output
    assert "SWARM_GENERATION_SERVER_AWAY=own" in node.output
    assert not list(layout(tmp_path / "shared").rollouts.rglob("w0.json"))
    assert json.loads((layout(tmp_path / "shared").peers / "w0.json").read_bytes())
