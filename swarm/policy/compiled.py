"""The parts of a training pass that torch.compile makes of many passes over memory one: in the layers, and in the loss.

    layer    norm, queries, keys, rotary ─▶ attention ─▶ product, norm, gate ...   some pieces, which all layers share
    loss     a block's product ─▶ all that passes over its logits                  swarm.policy.logprobs

Attention over packed rows stays as it is: how many blocks it has differs from one micro-batch to the next, and each
number would be compiled by itself. Layers that are recomputed in the backward pass stay as they are, too: torch's
checkpointing does not let them be compiled.

A model gets them once swarm.policy.load_probe has seen that they give the gradient that it has without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from swarm.policy.attention import attend_in_blocks
from swarm.policy.logprobs import BlockWork, block_gradient, read_block_alone


class CompiledTraining:
    """The layers and the loss of one model, compiled when they first run, for all sizes."""

    def __init__(self, module: Any, *, with_layers: bool) -> None:
        """`module`: of transformers."""
        self.loss = BlockWork(_compiled(read_block_alone), _compiled(block_gradient), buffered=False)
        self.attend: Any = torch.compiler.disable(attend_in_blocks)  # type: ignore[no-untyped-call]
        self._layers = [one for one in module.modules() if with_layers and isinstance(one, GradientCheckpointingLayer)]
        self._calls = [_compiled(layer._call_impl) for layer in self._layers]

    @contextmanager
    def layers(self) -> Iterator[None]:
        """Has the layers run compiled within the block."""
        _set_calls(self._layers, self._calls)
        try:
            yield
        finally:
            _set_calls(self._layers, [None] * len(self._layers))


def _set_calls(layers: Sequence[Any], calls: Sequence[Callable[..., Any] | None]) -> None:
    """Sets what Module.compile of torch sets."""
    for layer, call in zip(layers, calls, strict=True):
        layer._compiled_call_impl = call


def _compiled(function: Any) -> Any:
    return torch.compile(function, dynamic=True)
