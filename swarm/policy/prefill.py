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
class Prefilled:
    """Prompts that have been read."""

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
    padded, cache = pad_prompts(prompts, model), DynamicCache()
    hidden_K_P_D = model.hidden(
        padded.ids, mask=padded.mask, positions_B_T=padded.positions, cache=cache, owner_B=owner_K
    )
    row_R = torch.arange(len(prompts), device=model.device).repeat_interleave(group_size)
    owner_R = None if owner_K is None else owner_K[row_R]
    return Prefilled(padded, cache, model.logits(hidden_K_P_D[:, -1])[row_R], row_R, owner_R)
