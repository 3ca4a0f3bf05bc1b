"""Reads the prompts: each once, for all completions to it.

Sizes: K prompts of up to P tokens, G completions to each, R = K x G rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from swarm.policy.batch import PaddedPrompts, pad_prompts
from swarm.policy.model import LanguageModel


@dataclass(frozen=True, eq=False)
class PromptsRead:
    """Prompts that have been read, before anything is written to them."""

    prompts: PaddedPrompts
    cache: Any
    """A DynamicCache of K rows and P columns."""
    last: Tensor
    """[K, 1, D], each prompt's last hidden state."""


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
    """Read each prompt once, padded on the left; where several adapters are used, each by its own."""
    return begin_rows(model, read_prompts(model, pad_prompts(prompts, model), owner_K), group_size, owner_K)


def read_prompts(model: LanguageModel, prompts: PaddedPrompts, owner_K: Tensor | None = None) -> PromptsRead:
    """Read each prompt once, for sampling or for training."""
    cache = DynamicCache()
    hidden_K_P_D = model.hidden(
        prompts.ids, mask=prompts.mask, positions_B_T=prompts.positions, cache=cache, owner_B=owner_K
    )
    return PromptsRead(prompts, cache, hidden_K_P_D[:, -1:])


def begin_rows(model: LanguageModel, read: PromptsRead, group_size: int, owner_K: Tensor | None = None) -> Prefilled:
    """Begin group_size rows for each prompt. The cache is what was read, not a copy."""
    row_R = torch.arange(len(read.last), device=model.device).repeat_interleave(group_size)
    owner_R = None if owner_K is None else owner_K[row_R]
    return Prefilled(read.prompts, read.cache, model.logits(read.last[:, 0])[row_R], row_R, owner_R)
