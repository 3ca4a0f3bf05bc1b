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
from swarm.policy.embedded import embedded_path


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
    [{"hidden_size": "x"}, {"n_embd": 10**9}, {"n_layer": 2_000_000}, {"vocab_size": 40_000_000}],
    ids=lambda values: next(iter(values)),
)
def test_sizes_that_the_weights_do_not_have_are_refused_before_anything_is_opened(
    folder: Path, values: dict[str, Any]
) -> None:
    configure(folder, **values)
    assert next(iter(values)) in model_problem(str(folder))


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
