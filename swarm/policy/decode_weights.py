"""Weights to decode with: the trainer's own, or, under autocast, a copy whose matrices are already cast.

Autocast casts a matrix before every product, or once per region into memory of its own choice. A recorded step can use
neither: it must find each weight at one address for good. So the copy is cast once and then refreshed in place. What
autocast leaves in fp32 (embeddings, norms) is shared with the trainer, and the arithmetic is autocast's to the bit.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from swarm.policy.lora import StackedAdapters
from swarm.policy.model import LanguageModel


class DecodeWeights:
    """A model that computes what `source` does, from weights that stay where they are."""

    def __init__(self, source: LanguageModel) -> None:
        self._trained: list[Tensor] = []
        self._cast: list[Tensor] = []
        dtype = source.autocast_dtype
        is_cast = dtype is None or source.base is not None  # a frozen base is held in what it computes in
        self.model = source if is_cast else replace(source, module=self._cast_copy(source.module, dtype))

    def refresh(self) -> None:
        """Copy what the trainer has changed: one pass over the weights, far below the cost of one decoding call."""
        if isinstance(self.model.adapter, StackedAdapters):
            self.model.adapter.refresh()
        if self._cast:
            torch._foreach_copy_(self._cast, self._trained)

    def addresses(self) -> tuple[int, ...]:
        """Returns where the weights are; if that changes, nothing recorded with them may run again."""
        adapter = self.model.adapter.addresses() if isinstance(self.model.adapter, StackedAdapters) else ()
        return (*(parameter.data_ptr() for parameter in self.model.module.parameters()), *adapter)

    def _cast_copy(self, module: nn.Module, dtype: torch.dtype | None) -> Any:
        """Returns the same modules around the same parameters, except for those of matrix products."""
        configs = [part.config for part in module.modules() if "config" in vars(part)]
        shared = [*module.parameters(), *module.buffers(), *configs]
        twin = copy.deepcopy(module, {id(one): one for one in shared})
        for part in twin.modules():
            if isinstance(part, nn.Linear | Conv1D):
                for name, parameter in part.named_parameters(recurse=False):
                    self._trained.append(parameter)
                    self._cast.append(parameter.detach().to(dtype))
                    setattr(part, name, nn.Parameter(self._cast[-1], requires_grad=False))
        return twin
