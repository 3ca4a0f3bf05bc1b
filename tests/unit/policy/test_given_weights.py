"""Weights that anybody may have written, put into a model of one's own."""

from __future__ import annotations

import json
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


def one_more(file: Path) -> None:
    save_file(zeros(more=torch.zeros(1)), file)


def one_less(file: Path) -> None:
    save_file(dict(list(zeros().items())[1:]), file)


def other_sides(file: Path) -> None:
    name, tensor = next(iter(zeros().items()))
    save_file(zeros(**{name: tensor.t().contiguous()}), file)


def whole_numbers(file: Path) -> None:
    save_file({name: tensor.to(torch.int64) for name, tensor in zeros().items()}, file)


def terabyte(file: Path) -> None:
    """Of a hole."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}}).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        stream.truncate(2**40)


def many_names(file: Path) -> None:
    empty = {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(50_000)}
    header = json.dumps(empty).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header)


def cut(file: Path) -> None:
    save_file(zeros(), file)
    file.write_bytes(file.read_bytes()[:-1])


def no_header(file: Path) -> None:
    file.write_bytes(b"\xff" * 64)


@pytest.mark.parametrize(
    "write", [one_more, one_less, other_sides, whole_numbers, terabyte, many_names, cut, no_header, Path.mkdir]
)
def test_a_file_that_is_not_of_the_model_is_refused_and_changes_nothing(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    write(tmp_path / "model.safetensors")
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
