"""Weights that anybody may have written, put into a model of one's own."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from swarm.errors import ModelError
from swarm.policy.given_weights import named_weights, take_weights
from swarm.policy.peft_form import SavedAdapter
from tests.unit.policy.factories import make_model


def zeros(**changed: Any) -> dict[str, torch.Tensor]:
    """Weights of the model of these tests, all of them 0, but for these."""
    own = {name: torch.zeros_like(tensor) for name, tensor in named_weights(make_model().module).items()}
    return own | changed


def test_a_checkpoints_weights_take_the_place_of_ones_own_tied_ones_too(tmp_path: Path) -> None:
    save_file(zeros(), tmp_path / "model.safetensors")
    model = make_model()
    assert any(tensor.any() for tensor in model.module.parameters())
    take_weights("m", model.module, tmp_path)
    assert not any(tensor.any() for tensor in model.module.parameters())


def raw(file: Path, header: dict[str, Any], size: int = 0) -> None:
    """A header alone, with a hole of so many bytes behind it."""
    data = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(data)) + data)
    if size:
        os.truncate(file, size)


def other_sides() -> dict[str, torch.Tensor]:
    name, tensor = next(iter(zeros().items()))
    return zeros(**{name: tensor.t().contiguous()})


FILES: dict[str, Callable[[Path], object]] = {
    "one more": lambda file: save_file(zeros(more=torch.zeros(1)), file),
    "one less": lambda file: save_file(dict(list(zeros().items())[1:]), file),
    "other sides": lambda file: save_file(other_sides(), file),
    "whole numbers": lambda file: save_file({name: one.to(torch.int64) for name, one in zeros().items()}, file),
    "a terabyte of nothing": lambda file: raw(
        file, {"x": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}}, 2**40
    ),
    "many names": lambda file: raw(
        file, {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(50_000)}
    ),
    "cut": lambda file: (save_file(zeros(), file), os.truncate(file, file.stat().st_size - 1)),
    "no header": lambda file: file.write_bytes(b"\xff" * 64),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_not_of_the_model_is_refused_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    FILES[kind](tmp_path / "model.safetensors")
    model = make_model()
    before = {name: tensor.clone() for name, tensor in named_weights(model.module).items()}
    with pytest.raises(ModelError, match="model 'mine'"):
        take_weights("mine", model.module, tmp_path)
    assert all(tensor.equal(before[name]) for name, tensor in named_weights(model.module).items())


def test_an_adapter_with_more_columns_than_its_base_is_wide_is_refused_before_its_weights_are_read(
    tmp_path: Path,
) -> None:
    saved = SavedAdapter("LORA", "mallory/any", 10**9, 1.0, "all-linear")
    (tmp_path / "adapter_config.json").write_bytes(saved.encoded())
    with pytest.raises(ModelError, match="expected at most"):
        take_weights("mine", make_model().module, tmp_path)
