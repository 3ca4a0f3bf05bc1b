"""The sizes of a model, read from its files alone, in milliseconds: neither torch nor transformers is imported.

    name ─▶ embedded or local folder ─▶ config.json, safetensors headers, generation_config.json ─▶ ModelShape
         └▶ hub id ─▶ the local cache of the hub, else the hub's metadata (a few kB, never the weights)

Not covered: layers that differ from each other, and recurrent ones, which swarm cannot train anyway.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swarm.errors import ModelError
from swarm.policy.hub import cached_folder
from swarm.policy.model_files import (
    CONFIG,
    local_folder,
    place_problem,
    read_json,
    resolve_model,
    safetensors_files,
    tensor_shapes,
)
from swarm.policy.peft_form import adapter_of, is_adapter
from swarm.policy.settings import DEFAULT_MAX_NEW_TOKENS, suited_length

_NO_CONTEXT_LIMIT = 2**31
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
_NO_SIZE = ("_token_id", "_version", "_name_or_path", "dtype", "architectures", "use_cache")

_Tensors = dict[str, tuple[int, ...]]
"""Shape of each tensor, by name."""


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The sizes that memory depends on."""

    name: str
    parameters: int
    """Numbers of the model, tied ones once."""
    layers: int
    hidden: int
    """D: width of the residual stream."""
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    """Longest sequence, tokens."""
    max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS
    """Length limit of a completion that the model's generation config names."""
    digest: str = ""
    """Digest of what config.json says of the architecture: models of equal digest have equal activations."""


def model_shape(name: str, *, hub_token: str | None = None) -> ModelShape:
    """Returns the sizes of an embedded model, a local folder (of an adapter: of its base) or a hub id.

    Raises:
        ModelError: not there, no network, or its files do not say.
    """
    folder = local_folder(name) or cached_folder(name)
    try:
        if folder and (problem := place_problem(folder)):
            raise ValueError(problem)
        if folder and is_adapter(folder):
            base = adapter_of(folder).base_model_name_or_path
            if (beneath := local_folder(base)) and is_adapter(beneath):
                raise ValueError(f"its base {base!r} is an adapter, too")
            return replace(model_shape(base, hub_token=hub_token), name=name)
        return _from_folder(name, folder) if folder else _from_hub(resolve_model(name), hub_token)
    except _UNREADABLE as error:
        raise ModelError(
            f"model {name!r}: its size cannot be known from {folder or 'the hub'}: {error}; "
            "expected config.json with model.safetensors beside it; check MODEL_NAME"
        ) from error


def shape_from(name: str, config: Mapping[str, Any], generation: Mapping[str, Any], tensors: _Tensors) -> ModelShape:
    """Returns the sizes that a config.json, a generation_config.json and the tensors' shapes spell out.

    Raises:
        KeyError: the configuration lacks a size.
    """
    text = config.get("text_config", config)
    hidden, heads = _first(text, "hidden_size", "n_embd", "d_model"), _first(text, "num_attention_heads", "n_head")
    return ModelShape(
        name=name,
        parameters=_count(tensors, tied=text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        layers=_first(text, "num_hidden_layers", "n_layer"),
        hidden=hidden,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or hidden // heads,
        vocabulary=_first(text, "vocab_size"),
        context=text.get("max_position_embeddings") or text.get("n_positions") or _NO_CONTEXT_LIMIT,
        max_new_tokens=suited_length(generation.get("max_new_tokens")),
        digest=_digest(text),
    )


def _digest(config: Mapping[str, Any]) -> str:
    """Names, versions and the ids of special tokens say nothing about sizes."""
    said = {name: config[name] for name in sorted(config) if not name.endswith(_NO_SIZE)}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _from_folder(name: str, folder: Path) -> ModelShape:
    config, generation = read_json(folder / CONFIG), folder / "generation_config.json"
    files = safetensors_files(folder)
    if not files:
        raise FileNotFoundError(f"no weights in {folder}")
    tensors = {tensor: shape for file in files for tensor, shape in tensor_shapes(file)}
    return shape_from(name, config, read_json(generation) if generation.is_file() else {}, tensors)


def _from_hub(name: str, token: str | None) -> ModelShape:
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    def read(file: str) -> dict[str, Any]:
        return read_json(Path(huggingface_hub.hf_hub_download(name, file, token=token)))

    try:
        # first, since it does not try for half a minute where there is no network
        files = huggingface_hub.get_safetensors_metadata(name, token=token).files_metadata.values()
        config, generation = read(CONFIG), dict[str, Any]()
        with suppress(EntryNotFoundError):
            generation = read("generation_config.json")
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return shape_from(name, config, generation, {key: tuple(t.shape) for f in files for key, t in f.tensors.items()})


def _first(config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        if config.get(name):
            return int(config[name])
    raise KeyError(f"config.json names none of {', '.join(names)}")


def _count(tensors: _Tensors, *, tied: bool) -> int:
    """Returns numbers in all tensors but buffers, and but a head that repeats the embeddings."""
    return sum(
        math.prod(shape)
        for name, shape in tensors.items()
        if len(shape) < 4  # GPT-2 files carry causal masks
        and not name.endswith("rotary_emb.inv_freq")
        and not (tied and name.endswith("lm_head.weight") and len(tensors) > 1)
    )
