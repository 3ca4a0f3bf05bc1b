"""The size of a model is read from its files, and is the size that transformers gives it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

from swarm.errors import ModelError
from swarm.planner.shape import DEFAULT_MAX_NEW_TOKENS, model_shape, shape_from
from swarm.policy.model import load_model
from tests.unit.policy.factories import make_module

LLAMA = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 100,
    "intermediate_size": 48,
}


def parameters_of(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def raising(error: Exception) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize("name", ["tiny-qwen2", "tiny-2-gpt2"])
def test_an_embedded_model_has_the_size_that_it_has_when_loaded(name: str) -> None:
    model, shape = load_model(name, device="cpu"), model_shape(name)
    assert shape.parameters == parameters_of(model.module)
    assert (shape.context, shape.max_new_tokens) == (model.context, model.max_new_tokens)
    assert shape.vocabulary == model.module.get_output_embeddings().out_features


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2", "llama"])
@pytest.mark.parametrize("shard", ["1GB", "20KB"])
def test_a_folder_has_the_size_of_what_was_saved_in_it(tmp_path: Path, architecture: str, shard: str) -> None:
    module = make_module(architecture)
    module.save_pretrained(tmp_path, max_shard_size=shard)
    shape = model_shape(str(tmp_path))
    assert shape.parameters == parameters_of(module)
    assert (shape.layers, shape.hidden, shape.head_dim) == (2, 32, 8)
    assert shape.kv_heads == (4 if architecture == "gpt2" else 2)


def test_masks_and_a_repeated_head_are_no_parameters() -> None:
    tensors = {
        "wte.weight": (100, 32),
        "lm_head.weight": (100, 32),
        "h.0.attn.bias": (1, 1, 64, 64),
        "h.0.rotary_emb.inv_freq": (4,),
    }
    assert shape_from("m", LLAMA | {"tie_word_embeddings": True}, {}, tensors).parameters == 3200
    assert shape_from("m", LLAMA | {"tie_word_embeddings": False}, {}, tensors).parameters == 6400


def test_what_the_configuration_says_of_heads_and_lengths_counts() -> None:
    shape = shape_from("m", LLAMA | {"head_dim": 16, "num_key_value_heads": 1}, {"max_new_tokens": 7}, {})
    assert (shape.head_dim, shape.kv_heads, shape.max_new_tokens) == (16, 1, 7)
    assert shape_from("m", {"text_config": LLAMA}, {}, {}).max_new_tokens == DEFAULT_MAX_NEW_TOKENS


def test_the_digest_is_that_of_the_architecture_whatever_else_the_file_says() -> None:
    digest = shape_from("m", LLAMA, {}, {}).digest
    assert shape_from("n", LLAMA | {"transformers_version": "9", "eos_token_id": 3}, {}, {}).digest == digest
    assert shape_from("m", LLAMA | {"intermediate_size": 49}, {}, {}).digest != digest


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"config.json": b"[]"},
        {"config.json": b"{}", "model.safetensors": b""},
        {"config.json": json.dumps(LLAMA).encode()},
        {"config.json": json.dumps(LLAMA).encode(), "model.safetensors": struct.pack("<Q", 2**60)},
        {"config.json": json.dumps(LLAMA).encode(), "model.safetensors": struct.pack("<Q", 5) + b"[1]"},
        {"config.json": b'{"hidden_size": "wide"}', "model.safetensors": struct.pack("<Q", 2) + b"{}"},
    ],
)
def test_files_that_do_not_say_are_a_model_error(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match="its size cannot be known"):
        model_shape(str(tmp_path))


def test_a_hub_id_is_sized_by_the_hubs_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "generation_config.json").write_text('{"max_new_tokens": 9}')
    file = SimpleNamespace(tensors={"model.embed_tokens.weight": SimpleNamespace(shape=[100, 32])})
    metadata = SimpleNamespace(files_metadata={"model.safetensors": file})
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", lambda *_, **__: metadata)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda _, name, **__: str(tmp_path / name))
    shape = model_shape("someone/model")
    assert (shape.parameters, shape.max_new_tokens) == (3200, 9)


def test_a_hub_id_that_was_downloaded_is_sized_without_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = make_module()
    module.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").touch()
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: str(tmp_path / "config.json"))
    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", raising(AssertionError("asked the network")))
    assert model_shape("someone/model").parameters == parameters_of(module)


def test_a_folder_of_an_adapter_has_the_size_of_its_base(tmp_path: Path) -> None:
    def save(base: str) -> None:
        saved = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 4, "lora_alpha": 8}
        (tmp_path / "adapter_config.json").write_text(json.dumps(saved | {"target_modules": ["q_proj"]}))

    save("tiny-qwen2")
    shape = model_shape(str(tmp_path))
    assert (shape.parameters, shape.name) == (model_shape("tiny-qwen2").parameters, str(tmp_path))
    save(str(tmp_path))
    with pytest.raises(ModelError, match="is an adapter, too"):
        model_shape(str(tmp_path))
