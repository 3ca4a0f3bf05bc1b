"""Attention of our own: grouped heads without copies of their keys and values, and rows without padding between them.

Where there is a mask, transformers' sdpa repeats keys and values for every query head of a group. A mask is there in
nearly every step: prompts differ in length. Here one of two ways does without, to the same numbers up to rounding:

    folded   the heads of a group become further queries   q [B, K, G x T, D]   one token a row, and on GPUs
    told     the kernel is told of the groups               q [B, K x G, T, D]   more tokens a row, on processors

On GPUs only a slow kernel takes groups and a mask. Without a mask, or without groups, transformers' sdpa is used.

A pass over packed rows is one sequence of N tokens, in which no layer but attention needs to know whose they are:

    tokens [N] ──layers──▶ q, k, v [N] ──gathered, block by block──▶ [n, T] behind [n, S] ──attention──▶ back to [N]

A prompt stands there once, and the keys of every row behind it begin with the prompt's. Only here are rows padded, to
the longest of their block. What a layer may see (all, a window, a chunk) is asked of transformers' own mask functions,
at the tokens' positions in their rows.

Sizes: B rows, K heads of keys, G query heads to each, T queries, S columns of keys, D head size; n rows of a block.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

SDPA, EAGER = "grouped_sdpa", "packing_eager"
"""Names of this attention in a model's config, by what it calls in the end."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows that attend together, padded on the right; padding has the place and the position of some token."""

    queries: Tensor
    """[n, T], places among the tokens of the pass."""
    query_mask: Tensor
    """bool [n, T], False on padding."""
    query_positions: Tensor
    """[n, T], in the row."""
    keys: Tensor
    """[n, S], likewise of what the queries may see at most."""
    key_mask: Tensor
    key_positions: Tensor


@dataclass(frozen=True, eq=False)
class Packing:
    """Says where the rows of a packed pass are."""

    blocks: Sequence[RowBlock]
    place: Tensor
    """[N], where each token's query is among those of all blocks, laid end to end."""
    attend: Callable[..., tuple[Tensor, None]]
    """attend_in_blocks, or what hides it from a compiler."""


@dataclass(frozen=True, eq=False)
class _PackedMask:
    """Stands where a layer expects its mask."""

    packing: Packing
    masks: Sequence[Tensor]
    """[n, 1, T, S] of each block: bool, or additive for plain attention."""


_packing: ContextVar[Packing | None] = ContextVar("packing", default=None)


@contextmanager
def packed(packing: Packing | None) -> Iterator[None]:
    """Has models attend within the rows of a packing; None: as they do by themselves."""
    token = _packing.set(packing)
    try:
        yield
    finally:
        _packing.reset(token)


def use_attention(module: Any) -> bool:
    """Has a model of transformers use this attention where it would use sdpa or plain attention; it computes the same.

    Returns False where the model leaves no choice. Then its rows cannot be packed.
    """
    of_ours = {"sdpa": SDPA, "eager": EAGER}.get(module.config._attn_implementation)
    if of_ours is None or not module._can_set_attn_implementation():
        return False
    for name, attend, make_mask in ((SDPA, grouped_attention, _sdpa_mask), (EAGER, _eager_attention, _eager_mask)):
        AttentionInterface.register(name, attend)
        AttentionMaskInterface.register(name, make_mask)
    module.set_attn_implementation(of_ours)
    return True


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | _PackedMask | None,
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
    if isinstance(attention_mask, _PackedMask):
        return attention_mask.packing.attend(
            grouped_attention, module, query, key, value, attention_mask, dropout, scaling, options
        )
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


def _eager_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | _PackedMask | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, Any]:
    """Attends as the model's own code does."""
    if isinstance(attention_mask, _PackedMask):
        return attention_mask.packing.attend(
            _eager_attention, module, query, key, value, attention_mask, dropout, scaling, options
        )
    attend = sys.modules[type(module).__module__].eager_attention_forward
    found: tuple[Tensor, Any] = attend(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
    )
    return found


def attend_in_blocks(
    attend: Any,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: _PackedMask,
    dropout: float,
    scaling: float | None,
    options: dict[str, Any],
) -> tuple[Tensor, None]:
    """Returns [1, N, K x G, D]; query [1, K x G, N, D], key and value [1, K, N, D].

    Args:
        attend: within one block.
        mask: of all blocks.
    """
    found = []
    for block, of_block in zip(mask.packing.blocks, mask.masks, strict=True):
        query_n, key_n, value_n = (
            _gathered(one, at) for one, at in ((query, block.queries), (key, block.keys), (value, block.keys))
        )
        attended, _ = attend(module, query_n, key_n, value_n, of_block, dropout=dropout, scaling=scaling, **options)
        found.append(attended.flatten(0, 1))
    return torch.cat(found).index_select(0, mask.packing.place)[None], None


def _gathered(heads: Tensor, place_n_T: Tensor) -> Tensor:
    """Returns [n, H, T, D] of [1, H, N, D]."""
    taken_nT_H_D = heads[0].transpose(0, 1).index_select(0, place_n_T.flatten())
    return taken_nT_H_D.view(*place_n_T.shape, *taken_nT_H_D.shape[1:]).transpose(1, 2)


def _sdpa_mask(*sizes: Any, **given: Any) -> Tensor | _PackedMask | None:
    """Stands for transformers' function of the same purpose, with its arguments."""
    if packing := _packing.get():
        return _PackedMask(packing, [_visible(block, given["mask_function"]) for block in packing.blocks])
    mask: Tensor | None = sdpa_mask(*sizes, **given)
    return mask


def _eager_mask(*sizes: Any, **given: Any) -> Tensor | _PackedMask | None:
    """Likewise."""
    if packing := _packing.get():
        dtype = given["dtype"]
        seen = (_visible(block, given["mask_function"]) for block in packing.blocks)
        return _PackedMask(packing, [torch.where(one, 0.0, torch.finfo(dtype).min).to(dtype) for one in seen])
    mask: Tensor | None = eager_mask(*sizes, **given)
    return mask


def _visible(block: RowBlock, mask_function: Any) -> Tensor:
    """Returns bool [n, 1, T, S]: which keys a query may see. What is padding sees anything, as no row may see nothing.

    Args:
        mask_function: transformers': whether a position may see another one of the first row and head.
    """
    first = block.queries.new_zeros(1, 1, 1, 1)
    query_n_1_T_1, key_n_1_1_S = block.query_positions[:, None, :, None], block.key_positions[:, None, None]
    seen: Tensor = mask_function(first, first, query_n_1_T_1, key_n_1_1_S)
    return (seen & block.key_mask[:, None, None]) | ~block.query_mask[:, None, :, None]
