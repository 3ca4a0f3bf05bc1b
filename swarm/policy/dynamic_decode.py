"""Decoding with a cache that grows by a column per token and loses the rows that finish.

The least arithmetic, and the best choice where launching an operation costs nothing: on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from swarm.policy.forward import select_rows
from swarm.policy.model import LanguageModel
from swarm.policy.prefill import Prefilled, prefill


class DynamicDecoding:
    """Keeps nothing from one call to the next."""

    look_every = 1

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @contextmanager
    def region(self) -> Iterator[None]:
        """One autocast region around all steps casts the weights once."""
        with torch.inference_mode(), self._model.autocast():
            yield

    def begin(
        self, prompts: Sequence[Sequence[int]], *, group_size: int, steps: int, owner_K: Tensor | None = None
    ) -> DynamicDecoder:
        """Read the prompts."""
        return DynamicDecoder(self._model, prefill(self._model, prompts, group_size, owner_K), steps)


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
