"""A model out of a shared place is looked at, and opened once in a bounded child."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm.planner.startable import model_problem
from swarm.policy.embedded import embedded_path
from swarm.policy.opening import opening_problem, strangers_problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model, where a checkpoint has it."""
    folder = tmp_path / "experiments" / "exp" / "checkpoints" / "round_3" / "mallory" / "model"
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


@pytest.mark.parametrize(
    "values",
    [
        {"auto_map": {"AutoConfig": "mallory/any--code.Config"}},
        {"quantization_config": {"quant_method": "fp8"}},
        {"text_config": {"_attn_implementation": "mallory/kernel"}},
        {"transformers_weights": "../../other"},
    ],
    ids=lambda values: next(iter(values)),
)
def test_a_configuration_that_names_code_is_refused(folder: Path, values: dict[str, Any]) -> None:
    assert strangers_problem(folder) == ""
    configure(folder, **values)
    assert "has code or files loaded" in strangers_problem(folder)


def test_links_pipes_adapters_beside_a_model_and_tokenizers_larger_than_it_are_refused(folder: Path) -> None:
    odd: dict[str, Callable[[Path], object]] = {
        "tokenizer.model": lambda file: file.symlink_to("/dev/zero"),
        "special_tokens_map.json": os.mkfifo,
        "adapter_config.json": lambda file: file.write_text("{}"),
        "added_tokens.json": lambda file: file.write_bytes(b" " * (4 << 20)),
    }
    for name, make in odd.items():
        make(folder / name)
        assert strangers_problem(folder)
        (folder / name).unlink()
        assert not strangers_problem(folder)


@pytest.mark.parametrize("shape", [[10**9], [-1], [1e400], ["x"], None], ids=str)
def test_a_header_that_names_more_numbers_than_there_are_bytes_is_refused(folder: Path, shape: Any) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
    assert "cannot be read" in model_problem(str(folder))


TEMPLATES = {
    "fails": "{{ 1/0 }}",
    "hangs": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "swells": "{% set n = namespace(s='ab') %}{% for a in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("fails", "ZeroDivisionError"),
        pytest.param("hangs", "time", marks=pytest.mark.engine),
        pytest.param("swells", "memory", marks=pytest.mark.engine),
    ],
)
def test_a_chat_template_that_fails_hangs_or_swells_costs_a_child_alone(folder: Path, template: str, said: str) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATES[template])
    assert said in opening_problem(folder)


@pytest.mark.engine
def test_an_honest_checkpoint_is_opened(folder: Path) -> None:
    assert opening_problem(folder) == ""
