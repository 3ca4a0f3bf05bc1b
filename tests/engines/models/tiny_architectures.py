"""Every causal architecture of the installed transformers, as small as its configuration allows, with random weights.

    model type ─▶ its default configuration ─sizes by name─▶ a tiny one ─▶ a model of weights that make tokens unlike

Windows and chunks are shorter than the sequences of the tests, and layers of each kind that a model has are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCABULARY = 300
LAYERS = 2
MOST_PARAMETERS = 40_000_000
SIZES: tuple[tuple[str, int], ...] = (
    (r"(n_|.*_)?vocab(ulary)?_size.*|n_vocab|padded_vocab_size", VOCABULARY),
    (
        r"num_hidden_layers|n_layers?|num_layers|(num_)?(encoder|decoder)_layers|num_blocks|depth|num_hidden_groups",
        LAYERS,
    ),
    (r"hidden_size|d_model|n_embd|dim|d_embed|word_embed_proj_dim|emb_dim|model_dim|backbone_hidden_size", 32),
    (
        r".*intermediate_size.*|.*ffn_dim|d_ff|n_inner|d_inner|dim_ff|ffn_hidden_size|.*ffn_hidden_size|feed_forward_size",
        48,
    ),
    (r"num_attention_heads|n_heads?|(encoder|decoder)_attention_heads|num_heads|num_query_heads", 4),
    (r"num_key_value_heads|num_kv_heads|multi_query_group_num|n_head_kv|.*num_key_value_heads", 2),
    (r"head_dim|d_kv|(?!qk_head_dim).*head_dim", 8),
    (r"q_lora_rank|kv_lora_rank|o_lora_rank", 16),
    (r"num_(local_)?experts|n_routed_experts|moe_num_experts|num_routed_experts", 4),
    (
        r"num_experts_per_tok(en)?|moe_topk|moe_k|num_selected_experts|moe_router_topk|num_experts_per_token|moe_top_k",
        2,
    ),
    (r"n_group|topk_group|num_expert_group|n_groups|num_groups", 1),
    (r"sliding_window(_size)?|attention_window_size|attention_chunk_size|window_size|local_window_size", 8),
    (
        r"max_position_embeddings|n_positions|max_sequence_length|max_seq_len|max_source_positions|max_target_positions",
        128,
    ),
    (r"linear_num_key_heads", 2),
    (r"linear_num_value_heads", 4),
    (r"mamba_n_heads|mamba_num_heads|n_mamba_heads", 4),
    (r"mamba_d_head|mamba_head_dim", 16),
    (r"mamba_d_state|ssm_state_size|state_size", 8),
    (r"mamba_n_groups", 1),
    (r"mamba_d_ssm", 64),
    (r"rotary_dim", 4),
    (r"lru_width", 32),
    (r"image_size", 32),
    (r"patch_size", 8),
    (r"first_k_dense_replace|moe_layer_start_index|num_dense_layers", 1),
)
"""What fields are called, and what they are here; the first that fits."""
SPECIAL = {"bos_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
"""Of architectures that have such a token."""
PARTS_OF_LAYERS = re.compile(r".*layer.*|.*block_type.*|.*pattern.*|no_rope.*|compress_ratios|window_sizes")
INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 16,
    "indexer_compress_ratio": 4,
}
MLA = ("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "longcat_flash")
MLA += ("minicpm3", "sarvam_mla", "youtu")
"""Of latent attention, whose every head has keys of its own."""
OWN: Mapping[str, Mapping[str, Any]] = {
    "blt": {"encoder_hash_byte_group_vocab": 300},
    **{name: {"num_key_value_heads": 4} for name in MLA},
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
        }
    },
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}, "max_seq_len": 128},
    "deepseek_v2": {"num_key_value_heads": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_shared_experts": 1},
    "dots3_note": {"text_config": {"num_key_value_heads": 4}},
    "dots3_note_text": {"num_key_value_heads": 4},
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0}},
    "gemma3n_text": {"num_kv_shared_layers": 0, "layer_types": ["sliding_attention", "full_attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "ministral": {"head_dim": 8},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 2},
    "qwen4_exp": {"text_config": INDEXER},
    "qwen4_exp_text": INDEXER,
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "zaya": {"num_experts_per_tok": 1},
}
"""Fields of single architectures, where sizes by name do not fit each other."""


def model_types() -> list[str]:
    """Of all causal language models that transformers has."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_config(model_type: str) -> Any:
    """The configuration of one. Raises whatever its class makes of the sizes."""
    return _shrunk(CONFIG_MAPPING[model_type], OWN.get(model_type, {}))


def tiny_model(model_type: str) -> Any:
    """A random model, in evaluation mode."""
    torch.manual_seed(0)
    config = tiny_config(model_type)
    with torch.device("meta"):
        size = AutoModelForCausalLM.from_config(config).num_parameters()
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size} parameters")
    module = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            _spread(name, weight)
    return module.float().eval()


def _spread(name: str, weight: torch.Tensor) -> None:
    """Random numbers of a size at which tokens, positions and gates count."""
    if not weight.is_floating_point():
        return
    if weight.dim() >= 2:
        fan_in = weight.shape[-1]
        weight.normal_(0.0, 0.5 if "embed" in name or weight.shape[0] >= VOCABULARY else fan_in**-0.5)
    elif bool((weight == 0).all()) or not bool(weight.isfinite().all()):
        weight.normal_(0.0, 0.1)


def _shrunk(kind: type[PreTrainedConfig], own: Mapping[str, Any]) -> Any:
    default = kind()
    changes: dict[str, Any] = {}
    for name, value in _fields(default):
        if isinstance(value, PreTrainedConfig):
            changes[name] = _shrunk(type(value), own.get(name, {}))
        elif name in SPECIAL and value is not None:
            changes[name] = SPECIAL[name]
        elif (size := _size(name, value)) is not None:
            changes[name] = size
    changes |= _layers(default)
    return kind(
        **(
            changes
            | {name: value for name, value in own.items() if not isinstance(changes.get(name), PreTrainedConfig)}
        )
    )


def _fields(config: PreTrainedConfig) -> Iterator[tuple[str, Any]]:
    for name, value in vars(config).items():
        if not name.startswith("_") and name not in ("transformers_version", "dtype"):
            yield name, value


def _size(name: str, value: Any) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return next((size for pattern, size in SIZES if re.fullmatch(pattern, name)), None)


def _layers(config: PreTrainedConfig) -> dict[str, Any]:
    """Lists with an entry for each layer, in which each kind comes first where it can."""
    found: dict[str, Any] = {}
    for name, value in _fields(config):
        if isinstance(value, list | tuple) and value and PARTS_OF_LAYERS.fullmatch(name) and len(value) > LAYERS:
            kinds = list(dict.fromkeys(map(str, value)))
            first = [next(one for one in value if str(one) == kind) for kind in kinds]
            found[name] = (first * LAYERS)[:LAYERS]
    return found
