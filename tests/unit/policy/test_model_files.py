"""A model's folder is looked at before anything of it is opened; one of a shared place is not opened at all."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import ModelError
from swarm.planner.planner import model_problem
from swarm.planner.shape import model_shape
from swarm.policy import hub
from swarm.policy.embedded import embedded_path
from swarm.policy.hub import own_model
from swarm.policy.model import load_model
from swarm.policy.peft_form import SavedAdapter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model."""
    folder = tmp_path / "model"
    shutil.copytree(embedded_path("tiny-2-gpt2"), folder, ignore=shutil.ignore_patterns("README*", "LICENSE*"))
    return folder


def configure(folder: Path, name: str = "config.json", **values: Any) -> None:
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_bytes()) | values))


@pytest.mark.parametrize(
    "values",
    [
        *({"n_embd": value} for value in ("x", True, 64.0, [64], 10**9)),
        {"n_head": -1},
        {"hidden_size": "x"},
        {"vocab_size": 40_000_000},
        {"n_layer": 2_000_000},
        {"n_positions": 2**40},
        {"text_config": {"vocab_size": 40_000_000}},
        {"text_config": "x" * 10**5},
    ],
    ids=lambda values: str(values)[:30],
)
def test_sizes_that_the_weights_do_not_have_are_refused_before_anything_is_opened(
    folder: Path, values: dict[str, Any]
) -> None:
    assert not model_problem(str(folder))
    configure(folder, **values)
    problem = model_problem(str(folder))
    assert next(iter(values)) in problem or "vocab_size" in problem
    assert len(problem) < 1000


def test_a_configuration_that_is_nested_or_large_or_a_pipe_is_refused(folder: Path) -> None:
    config = folder / "config.json"
    for content in (b"[" * 100_000, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b" " * (2 << 20) + b"{}"):
        config.write_bytes(content)
        assert "config.json" in model_problem(str(folder))
    config.unlink()
    os.mkfifo(config)
    assert "is no file" in model_problem(str(folder))


@pytest.mark.parametrize("shape", [[10**9], [-1], [1e400], ["x"], None], ids=str)
def test_a_header_that_names_more_numbers_than_there_are_bytes_is_refused(folder: Path, shape: Any) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
    assert "cannot be read" in model_problem(str(folder))


@pytest.mark.parametrize("kind", ["config.json", "adapter_config.json"])
def test_a_model_that_lies_in_a_place_is_not_opened(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "experiments" / "exp" / "checkpoints" / "round_3" / "mallory" / "model"
    folder.mkdir(parents=True)
    os.mkfifo(folder / kind)
    assert "swarm model export" in model_problem(str(folder))
    with pytest.raises(ModelError, match="swarm model export"):
        model_shape(str(folder))


def test_a_name_means_one_of_the_users_models_or_an_embedded_one() -> None:
    assert own_model("tiny-2-qwen2", ["tiny-2-gpt2"]) == "tiny-2-qwen2"
    assert own_model("owner/Some-0.5B", ["owner/Some-0.5B"]) == "owner/Some-0.5B"
    assert own_model("Some-0.5B", ["tiny-2-gpt2", "/models/Some-0.5B"]) == "/models/Some-0.5B"


@pytest.mark.parametrize("name", ["mallory/any", "/etc", "..", "mallory/tiny-2-gpt2", "\x1b[2J", "a\x00b", ""])
def test_what_a_place_names_beside_them_is_refused_with_what_to_type(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="MODEL_NAME") as refused:
        own_model(name, ["tiny-2-gpt2"])
    assert "\x1b" not in str(refused.value)


def test_a_strangers_adapter_has_no_repository_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments" / "exp" / "checkpoints" / "round_3" / "mallory" / "model"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_bytes(SavedAdapter("LORA", "mallory/any", 2, 1.0, "all-linear").encoded())
    (folder / "adapter_model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    asked: list[str] = []
    monkeypatch.setattr(hub, "look_up", lambda name, token=None: asked.append(name))
    with pytest.raises(ModelError, match="model export"):
        load_model(str(folder), hub_token="secret")
    assert not asked
