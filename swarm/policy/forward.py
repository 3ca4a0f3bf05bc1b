"""Passes of the model: prompts read once, log-probs of completions to train on, one more token to sample.

Sizes: K prompts of up to P tokens, B sequences of T places, M tokens that models wrote, hidden size D.

DynamicDecoding samples on a cache that grows by a column per token and loses the rows that finish: the least
arithmetic, and the best choice where launching an operation costs nothing, on the CPU. There are G completions to each
prompt, R = K x G rows, of which L are live, and V entries of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from swarm.policy.attention import packed
from swarm.policy.draw import Sampling, draw_tokens
from swarm.policy.logprobs import LinearHead, chosen_logprobs, linear_logprobs
from swarm.policy.model import LanguageModel
from swarm.policy.stack import PaddedPrompts, Pass, TensorBatch, pad_prompts


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
    padded, cache = pad_prompts(prompts, model), DynamicCache()
    hidden_K_P_D = model.hidden(
        padded.ids, mask=padded.mask, positions_B_T=padded.positions, cache=cache, owner_B=owner_K
    )
    row_R = torch.arange(len(prompts), device=model.device).repeat_interleave(group_size)
    owner_R = None if owner_K is None else owner_K[row_R]
    return Prefilled(padded, cache, model.logits(hidden_K_P_D[:, -1])[row_R], row_R, owner_R)


def completion_logprobs(
    model: LanguageModel, batch: TensorBatch, *, temperature: float, width: int | None = None
) -> Tensor:
    """Returns fp32 log-probs [M] at the temperature, row after row, of the tokens that models wrote.

    Args:
        width: as of linear_logprobs.
    """
    with model.autocast():  # one region around all parts casts the weights once
        hidden_M_D = hidden_states(model, batch.forward)
        if head := LinearHead.of(model.module):
            blocks = model.compiled.loss if model.compiled else None
            return linear_logprobs(
                hidden_M_D, batch.token_ids, head, temperature=temperature, width=width, blocks=blocks
            )
        return chosen_logprobs(hidden_M_D, batch.token_ids, head=model.logits, temperature=temperature)


def hidden_states(model: LanguageModel, forward: Pass) -> Tensor:
    """Returns the hidden states [M, D] that predict each of these tokens."""
    with packed(forward.packing):
        hidden_B_T_D = model.hidden(forward.ids, mask=forward.mask, positions_B_T=forward.positions)
    return hidden_B_T_D.flatten(0, 1).index_select(0, forward.predicting)


def select_rows(cache: DynamicCache, index_N: Tensor) -> None:
    """Make row n of the cache what row index_N[n] was; rows may repeat."""
    for layer in cache.layers:
        layer.keys = layer.keys.index_select(0, index_N)
        layer.values = layer.values.index_select(0, index_N)


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

    def draw(self, uniform_L: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
        """Returns each live row's next token and its log-prob."""
        return draw_tokens(self.logits, uniform_L, sampling)

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
