"""Checkpoints: training goes on as if nothing had happened, or refuses before anything has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from swarm.errors import CheckpointError
from swarm.policy.policy import JoinedPolicy, load_policy, make_policy
from swarm.policy.settings import GrpoConfig
from swarm.policy.snapshot import MANIFEST, OPTIMIZER, WEIGHTS
from swarm.types import TrainReport
from tests.unit.policy.factories import ARCHITECTURES, make_group, make_model

GROUPS = [make_group(), make_group("?", ("a", "bc"), (1.0, -1.0))]


def some_policy(architecture: str = "qwen2", **settings: Any) -> JoinedPolicy:
    return make_policy(make_model(architecture), GrpoConfig(**{"learning_rate": 1e-3, "warmup_steps": 5} | settings))


def train(policy: JoinedPolicy, rounds: int) -> list[TrainReport]:
    return [policy.finish_update(GROUPS) for _ in range(rounds)]


def weights_of(policy: JoinedPolicy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.snapshot().weights.items()}


def identical(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def write(policy: JoinedPolicy, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    policy.snapshot().write(str(folder))
    return str(folder)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_goes_on_bit_for_bit_after_restore(architecture: str, tmp_path: Path) -> None:
    policy = some_policy(architecture)
    train(policy, 2)
    folder = write(policy, tmp_path)
    expected = train(policy, 2)
    resumed = some_policy(architecture)
    train(resumed, 1)  # whatever it did before is gone
    resumed.restore(folder)
    assert train(resumed, 2) == expected
    assert identical(weights_of(resumed), weights_of(policy))
    assert resumed.generate(["?"], group_size=2, seed=0) == policy.generate(["?"], group_size=2, seed=0)


def test_snapshot_is_of_its_moment_even_if_written_later(tmp_path: Path) -> None:
    policy = some_policy()
    train(policy, 1)
    before, snapshot = weights_of(policy), policy.snapshot()
    train(policy, 2)
    snapshot.write(str(tmp_path))
    policy.restore(str(tmp_path))
    assert identical(weights_of(policy), before)
    assert policy.snapshot().optimizer.updates == 1


def test_untrained_policy_can_be_saved_and_restored(tmp_path: Path) -> None:
    policy = some_policy()
    before, folder = weights_of(policy), write(policy, tmp_path)
    train(policy, 1)
    policy.restore(folder)
    assert identical(weights_of(policy), before)
    assert policy.snapshot().optimizer.steps == {}
    assert train(policy, 1) == train(some_policy(), 1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_model_folder_is_an_ordinary_hugging_face_model(architecture: str, tmp_path: Path) -> None:
    policy = some_policy(architecture, max_new_tokens=8)
    train(policy, 2)
    folder = write(policy, tmp_path)
    loaded = load_policy(f"{folder}/model", GrpoConfig(max_new_tokens=12), device="cpu")
    assert identical(weights_of(loaded), weights_of(policy))
    assert loaded.generate(["?"], group_size=3, seed=0) == policy.generate(["?"], group_size=3, seed=0)


def test_generation_config_that_transformers_would_not_save_is_no_obstacle(tmp_path: Path) -> None:
    model = make_model()
    model.module.generation_config.temperature = 0.6  # without do_sample, as some published models have it
    write(make_policy(model, GrpoConfig()), tmp_path)
    assert json.loads((tmp_path / "model" / "generation_config.json").read_text())["temperature"] == 0.6


def test_nothing_in_a_checkpoint_can_run_code(tmp_path: Path) -> None:
    policy = some_policy()
    train(policy, 1)
    write(policy, tmp_path)
    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert kinds <= {".json", ".safetensors", ".jinja"}


def test_reference_keeps_the_initial_weights_after_restore(tmp_path: Path) -> None:
    trained = some_policy(learning_rate=3e-3, warmup_steps=0)
    train(trained, 5)
    resumed = some_policy(kl_weight=0.5)
    resumed.restore(write(trained, tmp_path))
    assert resumed.finish_update(GROUPS).kl > 1e-3


def edit_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | changes))


def rename_tensor(folder: Path) -> None:
    """Another model's tensor, with a stamp that fits it."""
    tensors = load_file(folder / WEIGHTS)
    name = sorted(tensors)[0]
    tensors["alien"] = tensors.pop(name)
    replace_file(folder, WEIGHTS, tensors)


def reshape_moment(folder: Path) -> None:
    tensors = load_file(folder / OPTIMIZER)
    name = sorted(tensors)[0]
    tensors[name] = tensors[name][:1].clone()
    replace_file(folder, OPTIMIZER, tensors)


def replace_file(folder: Path, name: str, tensors: dict[str, torch.Tensor]) -> None:
    from swarm.policy.snapshot import _stamp

    save_file(tensors, folder / name)
    manifest = json.loads((folder / MANIFEST).read_text())
    stamp = _stamp(folder / name)
    manifest["files"][name] = {"bytes": stamp.bytes, "sha256": stamp.sha256}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def flip_a_byte(folder: Path) -> None:
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS).write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), "manifest.json cannot be read"),
    "torn manifest": (lambda folder: (folder / MANIFEST).write_text('{"format": 1'), "manifest.json cannot be read"),
    "later format": (lambda folder: edit_manifest(folder, format=2), "format: expected 1, got 2"),
    "other model": (lambda folder: edit_manifest(folder, model="x"), "model: expected tiny-qwen2, got x"),
    "other architecture": (
        lambda folder: edit_manifest(folder, architecture="GPT2LMHeadModel"),
        "expected Qwen2ForCausalLM",
    ),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "stamp of model/model.safetensors.*got None"),
    "torn optimizer": (lambda folder: (folder / OPTIMIZER).write_bytes(b"x"), "stamp of optimizer.safetensors"),
    "flipped bit": (flip_a_byte, "stamp of model/model.safetensors"),
    "unknown parameter": (lambda folder: edit_manifest(folder, steps={"alien": 1}), "optimized parameters"),
    "unknown tensor": (rename_tensor, "tensor 'alien': expected None"),
    "wrong moment": (reshape_moment, "optimizer.safetensors: tensor 'first_moment/"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_checkpoint_that_does_not_fit_is_refused_before_anything_changes(damage: str, tmp_path: Path) -> None:
    spoil, message = DAMAGE[damage]
    policy = some_policy()
    train(policy, 1)
    write(policy, tmp_path)
    train(policy, 1)
    before = policy.snapshot()
    spoil(tmp_path)
    with pytest.raises(CheckpointError, match=message) as caught:
        policy.restore(str(tmp_path))
    assert str(tmp_path) in str(caught.value)
    assert identical(weights_of(policy), before.weights)
    assert identical(policy.snapshot().optimizer.first_moments, before.optimizer.first_moments)


def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        some_policy().snapshot().write(str(tmp_path / "missing"))
