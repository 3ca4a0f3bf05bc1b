"""Attention of grouped heads, without copies of their keys and values.

Where there is a mask, transformers' sdpa repeats keys and values for every query head of a group. A mask is there in
nearly every step: prompts differ in length. Here one of two ways does without, to the same numbers up to rounding:

    folded   the heads of a group become further queries   q [B, K, G x T, D]   one token a row, and on GPUs
    told     the kernel is told of the groups               q [B, K x G, T, D]   more tokens a row, on processors

On GPUs only a slow kernel takes groups and a mask. Without a mask, or without groups, transformers' sdpa is used.
Sizes: B rows, K heads of keys, G query heads to each, T queries, S columns of keys, D head size.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "grouped_sdpa"


def use_grouped(module: Any) -> None:
    """Has a model of transformers use this attention where it would use sdpa; it computes the same."""
    groups = [getattr(part, "num_key_value_groups", 1) for part in module.modules()]  # a config may not tell them
    if any(isinstance(one, int) and one > 1 for one in groups) and module.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, grouped_attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        module.set_attn_implementation(NAME)


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attends as transformers' sdpa does; returns [B, T, K x G, D].

    Args:
        query: [B, K x G, T, D].
        key: [B, K, S, D], as `value`.
        attention_mask: bool or additive, [B, 1 or K x G, T, S]; None: causal, or as `options` say.
    """
    groups = query.shape[1] // key.shape[1]
    if attention_mask is None or groups == 1 or options.get("position_bias") is not None:
        found, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
        return found, None
    if query.shape[2] == 1 or query.device.type == "cuda":
        found = folded(query, key, value, attention_mask, dropout, scaling)
    else:
        found = scaled_dot_product_attention(
            query, key, value, attention_mask, dropout_p=dropout, scale=scaling, enable_gqa=True
        )
    return found.transpose(1, 2).contiguous(), None


def folded(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float = 0.0, scaling: float | None = None
) -> Tensor:
    """Returns [B, K x G, T, D]; sizes and mask as of grouped_attention."""
    rows, heads, queries, size = query.shape
    of_keys = key.shape[1]
    further = heads // of_keys * queries
    if mask.shape[1] != 1:
        mask = mask.reshape(mask.shape[0], of_keys, further, mask.shape[3])
    elif mask.shape[2] != 1:
        mask = mask.repeat(1, 1, heads // of_keys, 1)
    found = scaled_dot_product_attention(
        query.reshape(rows, of_keys, further, size), key, value, mask, dropout_p=dropout, scale=scaling
    )
    return found.reshape(rows, heads, queries, found.shape[3])
