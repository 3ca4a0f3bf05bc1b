"""Passes of the model: prompts read once, log-probs of completions to train on, one more token to sample.

Of the log-probs there are two ways to the same numbers and gradients:

    shared  prompts ──once──▶ KV cache ──repeat per row──▶ completions attend to it; gradients flow through the cache
    plain   each row is one sequence, prompt + completion; what gradient checkpointing needs

Sizes as in batch.py: K prompts, N rows, M real completion tokens; n rows of one block with m tokens, hidden size D.

DynamicDecoding samples on a cache that grows by a column per token and loses the rows that finish: the least
arithmetic, and the best choice where launching an operation costs nothing, on the CPU. There are G completions to each
prompt, R = K x G rows, of which L are live, and V entries of the vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from swarm.policy.batch import Block, PaddedPrompts, TensorBatch, pad_prompts
from swarm.policy.logprobs import LinearHead, chosen_logprobs, linear_logprobs
from swarm.policy.model import LanguageModel


@dataclass(frozen=True, eq=False)
class Prefilled:
    """Prompts that have been read, and the rows that are written to them."""

    prompts: PaddedPrompts
    cache: Any
    """A DynamicCache of K rows and P columns."""
    logits: Tensor
    """fp32 [R, V], of each row's first token."""
    prompt_of_row: Tensor
    """[R]: rows of one prompt stand together."""
    owner_of_row: Tensor | None = None
    """[R], where several adapters are used: each row's."""


def prefill(
    model: LanguageModel, prompts: Sequence[Sequence[int]], group_size: int, owner_K: Tensor | None = None
) -> Prefilled:
    """Read each prompt once, padded on the left, and begin group_size rows for each; where several adapters are used,
    each prompt is read by its own."""
    padded = pad_prompts(prompts, model)
    cache, last_K_1_D = _read_prompts(model, padded, owner_K)
    row_R = torch.arange(len(prompts), device=model.device).repeat_interleave(group_size)
    owner_R = None if owner_K is None else owner_K[row_R]
    return Prefilled(padded, cache, model.logits(last_K_1_D[:, 0])[row_R], row_R, owner_R)


def _read_prompts(
    model: LanguageModel, prompts: PaddedPrompts, owner_K: Tensor | None = None
) -> tuple[DynamicCache, Tensor]:
    """Returns the cache of K rows and P columns, and each prompt's last hidden state [K, 1, D]."""
    cache = DynamicCache()
    hidden_K_P_D = model.hidden(
        prompts.ids, mask=prompts.mask, positions_B_T=prompts.positions, cache=cache, owner_B=owner_K
    )
    return cache, hidden_K_P_D[:, -1:]


def completion_logprobs(model: LanguageModel, batch: TensorBatch, *, temperature: float, share_prompts: bool) -> Tensor:
    """Returns fp32 log-probs [M] at the temperature, row after row, of the real completion tokens alone."""
    with model.autocast():  # one region around all parts casts the weights once
        hidden_M_D = hidden_states(model, batch, share_prompts=share_prompts)
        if head := LinearHead.of(model):
            return linear_logprobs(hidden_M_D, batch.token_ids, head, temperature=temperature)
        return chosen_logprobs(hidden_M_D, batch.token_ids, head=model.logits, temperature=temperature)


def hidden_states(model: LanguageModel, batch: TensorBatch, *, share_prompts: bool) -> Tensor:
    """Hidden states [M, D] that predict each completion token, row after row."""
    if not share_prompts:
        return torch.cat([_plain_hidden(model, batch, block) for block in batch.blocks])
    cache, last_K_1_D = _read_prompts(model, batch.prompts)
    return torch.cat([_shared_hidden(model, batch, block, cache, last_K_1_D) for block in batch.blocks])


def select_rows(cache: DynamicCache, index_N: Tensor) -> None:
    """Make row n of the cache what row index_N[n] was; rows may repeat, and gradients flow back."""
    for layer in cache.layers:
        layer.keys = layer.keys.index_select(0, index_N)
        layer.values = layer.values.index_select(0, index_N)


def _shared_hidden(
    model: LanguageModel, batch: TensorBatch, block: Block, read: DynamicCache, last_K_1_D: Tensor
) -> Tensor:
    """Hidden states [m, D] of the real tokens of some rows: the prompt predicts the first, each token the next. The
    cache `read` stays as it is."""
    prompt_of_row_n = batch.prompt_of_row[block.rows]
    first_n_1_D = last_K_1_D.index_select(0, prompt_of_row_n)
    if block.width == 1:
        return first_n_1_D[:, 0]
    cache = copy.copy(read)
    cache.layers = [copy.copy(layer) for layer in read.layers]
    select_rows(cache, prompt_of_row_n)
    mask, positions_n_t = _completion_frame(batch, block)
    inputs_n_t = batch.completion_ids[block.rows, : block.width - 1]  # the last token predicts nothing that is trained
    rest_n_t_D = model.hidden(inputs_n_t, mask=mask, positions_B_T=positions_n_t, cache=cache)
    hidden_nT_D = torch.cat([first_n_1_D, rest_n_t_D], dim=1).flatten(0, 1)
    return hidden_nT_D.index_select(0, batch.token_places(block, width=block.width))


def _plain_hidden(model: LanguageModel, batch: TensorBatch, block: Block) -> Tensor:
    """Returns the same from one forward pass over prompt + completion of each row."""
    prompts, prompt_of_row_n = batch.prompts, batch.prompt_of_row[block.rows]
    mask, positions_n_t = _completion_frame(batch, block)
    hidden_n_S_D = model.hidden(
        torch.cat([prompts.ids[prompt_of_row_n], batch.completion_ids[block.rows, : block.width - 1]], dim=1),
        mask=mask,
        positions_B_T=torch.cat([prompts.positions[prompt_of_row_n], positions_n_t], dim=1),
    )
    length = hidden_n_S_D.shape[1]
    places_m = batch.token_places(block, width=length, before=length - block.width)
    return hidden_n_S_D.flatten(0, 1).index_select(0, places_m)


def _completion_frame(batch: TensorBatch, block: Block) -> tuple[Tensor, Tensor]:
    """Mask [n, P + t] over prompt and completion, and positions [n, t] of the completion's inputs, t = width - 1.

    The completion's right padding needs no masking: causal attention never looks at it from a real token.
    """
    prompt_of_row_n = batch.prompt_of_row[block.rows]
    prompt_mask_n_P = batch.prompts.mask[prompt_of_row_n]
    ones_n_t = prompt_mask_n_P.new_ones(len(prompt_of_row_n), block.width - 1)
    length_n = batch.prompts.lengths[prompt_of_row_n]
    positions_n_t = length_n[:, None] + torch.arange(block.width - 1, device=length_n.device)
    return torch.cat([prompt_mask_n_P, ones_n_t], dim=1), positions_n_t


class DynamicDecoding:
    """Keeps nothing from one call to the next."""

    look_every = 1

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    @contextmanager
    def region(self) -> Iterator[None]:
        """One autocast region around all steps casts the weights once."""
        with torch.inference_mode(), self.model.autocast():
            yield

    def begin(
        self, prompts: Sequence[Sequence[int]], *, group_size: int, steps: int, owner_K: Tensor | None = None
    ) -> DynamicDecoder:
        """Read the prompts."""
        return DynamicDecoder(self.model, prefill(self.model, prompts, group_size, owner_K), steps)


class DynamicDecoder:
    """Cache, mask and position of every live row, and logits [L, V] of the next token."""

    def __init__(self, model: LanguageModel, read: Prefilled, steps: int) -> None:
        self._model, self._cache = model, read.cache
        self.logits = read.logits
        mask_K_P, row_R = read.prompts.mask, read.prompt_of_row
        select_rows(self._cache, row_R)
        self._position_L = read.prompts.lengths[row_R]
        self._owner_L = read.owner_of_row
        self._seen = mask_K_P.shape[1]
        padded = not bool(mask_K_P.all())
        ones_R_T = mask_K_P.new_ones(len(row_R), steps)
        self._mask_L_S = torch.cat([mask_K_P[row_R], ones_R_T], dim=1) if padded else None

    def keep(self, kept_l: Tensor) -> None:
        """Go on with these of the live rows."""
        select_rows(self._cache, kept_l)
        self._position_L = self._position_L[kept_l]
        if self._owner_L is not None:
            self._owner_L = self._owner_L[kept_l]
        if self._mask_L_S is not None:
            self._mask_L_S = self._mask_L_S[kept_l]

    def forward(self, token_L: Tensor) -> None:
        """Append one token to every live row."""
        self._seen += 1
        mask = None if self._mask_L_S is None else self._mask_L_S[:, : self._seen]
        positions_L_1 = self._position_L[:, None]
        hidden_L_1_D = self._model.hidden(
            token_L[:, None], mask=mask, positions_B_T=positions_L_1, cache=self._cache, owner_B=self._owner_L
        )
        self.logits = self._model.logits(hidden_L_1_D[:, 0])
        self._position_L = self._position_L + 1
