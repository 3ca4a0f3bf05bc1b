"""Nodes that train adapters: several of one process, which generate in one step, and beside nodes that train all."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from swarm.policy import snapshot
from tests.integration import test_redo as redo
from tests.integration.swarms import daemons, environment, events, json_lines, layout, rollouts, rows
from tests.integration.test_redo import LORA, comparable, last_weights

pytestmark = pytest.mark.engine

NODES = ("w-0", "w-1", "w-2")
NAMED = {"NODE_ID": "w"}
ROUNDS = 12


ADAPTERS: dict[str, Any] = LORA | {"SWARM_GRADIENT_HALVES": True, "MAX_ROUNDS": ROUNDS, "CHECKPOINT_INTERVAL": 4}


def run(path: Path, kills: int) -> None:
    """A swarm of one coordinator and one process of adapters to its end; on the way both are killed so often."""
    redo.run(path, len(NODES), [signal.SIGKILL] * kills, random.Random(), together=True, **ADAPTERS)


def without_drift(path: Path, node: str) -> list[dict[str, Any]]:
    """Rows but for what the log-probs of a batch differ by in their last digits."""
    return [{name: value for name, value in row.items() if name != "logprob_drift"} for row in comparable(path, node)]


@pytest.mark.slow
def test_adapters_of_one_process_end_after_kills_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, broken, kills = tmp_path / "whole", tmp_path / "broken", 3
    run(whole, 0)
    run(broken, kills)
    for node in NODES:
        assert any(row["updated"] and row["external_groups"] for row in rows(whole, node)), "little was compared"
        assert any("gradient_alignment" in row for row in rows(whole, node)), "nothing was measured"
        assert len(events(broken, node, "node.ready")) == kills + 1, "it was over before it was ended"
        assert not events(broken, node, "rounds.lost")
        redone = events(broken, node, "round.redone")
        assert redone
        assert all(event["exact"] for event in redone), "what is redone trains on the stored token ids"
        assert without_drift(broken, node) == without_drift(whole, node)
        assert rollouts(broken, node) == rollouts(whole, node)
        assert last_weights(broken, node, ROUNDS) == last_weights(whole, node, ROUNDS)
        assert max(row["logprob_drift"] for row in rows(broken, node)) < 1e-4


def holds_the_adapter_and_its_moments_alone(checkpoint: Path, *, learned: bool) -> None:
    weights = load_file(checkpoint / "model" / "adapter_model.safetensors")
    numbers = sum(matrix.numel() for matrix in weights.values())
    assert all("lora_" in name for name in weights)
    assert any(matrix.any() for name, matrix in weights.items() if "lora_B" in name) == learned
    written = {file.name: file.stat().st_size for file in checkpoint.rglob("*.safetensors")}
    assert written.keys() == {"adapter_model.safetensors", "optimizer.safetensors"}
    assert sum(written.values()) < 1.1 * 12 * numbers


def diverge(root: Path) -> None:
    """Make a checkpoint that of a node whose adapter has diverged."""
    file, manifest = root / "model" / "adapter_model.safetensors", root / "manifest.json"
    save_file({name: torch.full_like(matrix, torch.nan) for name, matrix in load_file(file).items()}, file)
    said = msgspec.json.decode(manifest.read_bytes(), type=snapshot.CheckpointManifest)
    stamps = {**said.files, "model/adapter_model.safetensors": snapshot._stamp(file)}
    manifest.write_bytes(msgspec.json.encode(msgspec.structs.replace(said, files=stamps)))


def test_adapters_of_two_bases_and_a_node_that_trains_all_learn_from_each_other_and_one_that_fails_is_named_alone(
    tmp_path: Path,
) -> None:
    """Two of the three share a base, and so a step; the one that has diverged fails in it."""
    names, rounds = (*NODES, "whole"), 6
    common = {"SWARM_EXPECTED_WORKERS": 4, "NUM_TRANSPLANT_TREES": 4, "MAX_ROUNDS": rounds, "NUM_GENERATIONS": 8}
    common |= {"SWARM_MAX_NEW_TOKENS": 24, "COORDINATOR_ROUND_INTERVAL": 600}
    adapters = environment(tmp_path, SWARM_ADAPTER="lora", SWARM_ADAPTER_RANK=4, **common)
    adapters |= {"MODEL_NAME": "tiny-2-qwen2-content,tiny-2-gpt2"}
    with daemons() as start:
        coordinator = start("services.coordinator", adapters)
        workers = start("services.workers", adapters | NAMED, "--nodes", str(len(NODES)))
        alone = environment(tmp_path, MODEL_NAME="tiny-2-qwen2-content", NODE_ID="whole", **common)
        whole = start("services.worker", alone)
        assert [daemon.wait() for daemon in (coordinator, workers, whole)] == [0, 0, 0], workers.output + whole.output
    learned_from = {name: {peer for row in rows(tmp_path, name) for peer in row["external_by_peer"]} for name in names}
    assert learned_from["whole"] & {*NODES}
    assert any("whole" in learned_from[name] for name in NODES)
    saved = {name: layout(tmp_path).checkpoint(rounds, name) for name in names}
    for name in names:
        (started,) = json_lines(layout(tmp_path).root / "logs" / name / "starts.jsonl")
        assert started["settings"]["adapter"] == ("none" if name == "whole" else "lora")
        manifest = json.loads((saved[name] / "manifest.json").read_bytes())
        assert (manifest.get("adapter") or {}).get("rank") == (None if name == "whole" else 4)
    updated = {name: any(row["updated"] for row in rows(tmp_path, name)) for name in NODES}
    assert any(updated.values())
    for name in NODES:
        holds_the_adapter_and_its_moments_alone(saved[name], learned=updated[name])

    diverge(saved["w-2"])
    on = adapters | {"MAX_ROUNDS": "1000", "SWARM_EXPECTED_WORKERS": str(len(NODES))}
    with daemons() as start:
        start("services.coordinator", on)
        workers = start("services.workers", on | NAMED, "--nodes", str(len(NODES)))
        assert workers.wait() == 1, workers.output
    (failed,) = events(tmp_path, "w-2", "process.failed")
    assert "its weights have diverged" in failed["error"]
    for node in ("w-0", "w-1"):
        assert events(tmp_path, node, "process.failed") == []
        assert events(tmp_path, node, "node.finished")[-1]["reason"] == "stopped"
        done = events(tmp_path, node, "checkpoint.saved")[-1]["rounds_done"]
        (file,) = (layout(tmp_path).checkpoint(done, node) / "model").glob("*.safetensors")
        assert all(matrix.isfinite().all() for matrix in load_file(file).values())
