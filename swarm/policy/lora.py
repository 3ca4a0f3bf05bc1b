"""LoRA (arXiv:2106.09685): small trained matrices beside the frozen linear layers of a base that several nodes share.

    x ─┬▶ layer of the base, frozen ──────────▶ + ─▶ y
       └▶ A [r, in] ─▶ B [out, r] ─▶ x alpha/r ─┘

    AdaptedBase ─┬▶ Adapter of node a ─┐   one in use: training, generating alone
                 ├▶ Adapter of node b ─┼▶ StackedAdapters: each row uses its own, generating together
                 └▶ none ──────────────┘   the base itself: the reference of a KL term

A forward hook on each layer adds what the adapter in use gives, so that the module stays what transformers made of it.
The layer itself keeps the matrices in use: layers that are alike are then compiled once, for all adapters.
Names and shapes are PEFT's. Sizes: r rank, S the ranks of several adapters together, B rows, K prompts, T positions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers.pytorch_utils import Conv1D

from swarm.errors import ModelError
from swarm.policy.settings import LoraConfig

_PREFIX = "base_model.model."
"""Prefix of PEFT: what it calls the model that it wraps."""


class LayerUse(Protocol):
    """Describes what is added to the outputs of one layer."""

    def added(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """`outputs` [..., out] of the layer with what its `inputs` [..., in] give."""


class Use(Protocol):
    """Describes what is added to the outputs of the adapted layers."""

    @property
    def parts(self) -> Sequence[LayerUse]:
        """One for each layer."""


class AdaptedBase:
    """A frozen model whose linear layers ask which adapter is in use. The compute thread alone touches it."""

    def __init__(self, name: str, module: Any, targets: Sequence[str] | None) -> None:
        """Freeze the module and hook its layers.

        Args:
            name: of the model, as the user gives it.
            targets: endings of the names of layers, such as q_proj; None: all linear layers but the head.

        Raises:
            ModelError: no layer is called so.
        """
        self.name = name
        self.layers = adapted_layers(name, module, targets)
        self._module = module
        module.requires_grad_(requires_grad=False)
        self._use(None)
        for layer in self.layers.values():
            layer.register_forward_hook(_add)

    @contextmanager
    def using(self, use: Use | None) -> Iterator[None]:
        """Uses this within the block; None: the base alone."""
        before = self._in_use
        self._use(use)
        try:
            yield
        finally:
            self._use(before)

    def _use(self, use: Use | None) -> None:
        self._in_use = use
        parts = use.parts if use else [None] * len(self.layers)
        for layer, part in zip(self.layers.values(), parts, strict=True):
            vars(layer)["adapter"] = part  # three times as fast as by the module's own __setattr__

    @cached_property
    def digest(self) -> str:
        """Returns SHA-256 of the frozen weights: an adapter is of use beside these alone."""
        found = hashlib.sha256()
        for name, weights in self._module.named_parameters():
            found.update(f"{name} {weights.dtype} {tuple(weights.shape)}\n".encode())
            found.update(weights.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()


def _add(layer: Any, inputs: tuple[Tensor, ...], outputs: Tensor) -> Tensor:
    """The hook of each layer."""
    return outputs if layer.adapter is None else layer.adapter.added(inputs[0], outputs)


class AdapterPart(NamedTuple):
    """One layer's matrices of an adapter: a [r, in] and b [out, r]."""

    down: Tensor
    up: Tensor
    scale: float

    def added(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Returns the outputs [..., out] with the adapter's product added. Implements LayerUse."""
        return _add_product(outputs, linear(inputs, self.down), self.up, self.scale)


class Adapter:
    """The matrices of one node, fp32, on the device of its base; at first it changes nothing, for B is zero."""

    def __init__(self, base: AdaptedBase, config: LoraConfig, *, device: torch.device, seed: int) -> None:
        """A is drawn as PEFT draws it (Kaiming, uniform, a = sqrt 5), by `seed` alone on any device."""
        random = torch.Generator().manual_seed(seed)
        self.config = config
        self.down: list[nn.Parameter] = []
        self.up: list[nn.Parameter] = []
        for layer in base.layers.values():
            inputs, outputs = layer_size(layer)
            bound = 1 / math.sqrt(inputs)  # gain sqrt(2 / (1 + 5)), times sqrt(3 / inputs)
            a_r_in = torch.rand(config.rank, inputs, generator=random).mul_(2 * bound).sub_(bound)
            self.down.append(nn.Parameter(a_r_in.to(device)))
            self.up.append(nn.Parameter(torch.zeros(outputs, config.rank, device=device)))
        self.parts = [AdapterPart(*pair, config.scale) for pair in zip(self.down, self.up, strict=True)]
        self._names = tuple(base.layers)

    @torch.no_grad()
    def is_finite(self, dtype: torch.dtype | None) -> bool:
        """Tells whether products in `dtype` (None: fp32) with its matrices can be: one that is not would spoil all
        rows."""
        scaled = [matrix * self.config.scale for matrix in self.up]
        sums = [matrix.to(dtype or torch.float32).float().abs().sum() for matrix in (*self.down, *scaled)]
        return bool(torch.stack(sums).isfinite().all())

    def parameters(self) -> dict[str, nn.Parameter]:
        """Returns the matrices by the names that PEFT gives them."""
        pairs = zip(self._names, self.down, self.up, strict=True)
        return {
            f"{_PREFIX}{name}.lora_{letter}.weight": matrix
            for name, down, up in pairs
            for letter, matrix in (("A", down), ("B", up))
        }


class StackedPart(NamedTuple):
    """One layer's matrices of several adapters, stacked: a [S, in] and b times scale [out, S]."""

    down: Tensor
    up: Tensor
    rows: StackedAdapters

    def added(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Returns the outputs with each row's own product added; inputs [B, T, in], or [B x T, in] as some
        architectures lay them out. Implements LayerUse."""
        others = self.rows.others_B_1_S
        if inputs.dim() == 2:
            others = others.expand(-1, len(inputs) // len(others), -1).flatten(0, 1)
        inner = linear(inputs, self.down).masked_fill(others, 0.0)  # whatever they are, infinite too
        return _add_product(outputs, inner, self.up, 1.0)


class StackedAdapters:
    """Copies of several adapters, so that one product serves them all; each row then keeps what its own one gives."""

    def __init__(self, adapters: Sequence[Adapter], dtype: torch.dtype | None) -> None:
        """`dtype`: what products are computed in; None: fp32."""
        self._adapters = list(adapters)
        self._dtype = dtype or torch.float32
        self._down, self._up = self._copies()
        owner_S = torch.arange(len(adapters)).repeat_interleave(torch.tensor([one.config.rank for one in adapters]))
        others_N_S = owner_S != torch.arange(len(adapters))[:, None]
        self._others_N_S = others_N_S.to(self._down[0].device)
        self.others_B_1_S = self._others_N_S[:, None]
        """The ranks that are not the row's own."""
        self.parts = [StackedPart(*pair, self) for pair in zip(self._down, self._up, strict=True)]

    def refresh(self) -> None:
        """Copy what updates have changed, to the same addresses."""
        down, up = self._copies()
        torch._foreach_copy_([*self._down, *self._up], [*down, *up])

    def addresses(self) -> tuple[int, ...]:
        """Returns where the copies are."""
        return tuple(matrix.data_ptr() for matrix in (*self._down, *self._up))

    @torch.no_grad()
    def _copies(self) -> tuple[list[Tensor], list[Tensor]]:
        """Returns a [S, in] and B x scale [out, S] of each layer."""
        down = [torch.cat(parts).to(self._dtype) for parts in zip(*(one.down for one in self._adapters), strict=True)]
        scaled = ([matrix * one.config.scale for matrix in one.up] for one in self._adapters)
        return down, [torch.cat(parts, dim=1).to(self._dtype) for parts in zip(*scaled, strict=True)]

    def of_rows(self, owner_B: Tensor) -> StackedAdapters:
        """Chooses the adapters of a pass of B rows: `owner_B` has the number of each row's."""
        self.others_B_1_S = self._others_N_S[owner_B][:, None]
        return self


def adapted_layers(name: str, module: Any, targets: Sequence[str] | None) -> dict[str, nn.Module]:
    """Returns the linear layers of a model's body whose names end so, by name; None: all of them.

    Raises:
        ModelError: a target is the end of no layer's name.
    """
    found = _linear_layers(module)
    if missed := unmatched(module, targets or ()):
        kinds = sorted({path.rsplit(".", 1)[-1] for path in found})
        raise ModelError(
            f"model {name!r}: SWARM_ADAPTER_TARGETS names {missed[0]!r}, and no linear layer's name ends so. "
            f"Expected some of {', '.join(kinds)}, or nothing for all of them."
        )
    return {path: layer for path, layer in found.items() if not targets or any(_ends_so(path, t) for t in targets)}


def unmatched(module: Any, targets: Sequence[str]) -> list[str]:
    """Returns the targets that are the end of no linear layer's name, but for the head's."""
    paths = _linear_layers(module)
    return [target for target in targets if not any(_ends_so(path, target) for path in paths)]


def _linear_layers(module: Any) -> dict[str, nn.Module]:
    head = module.get_output_embeddings()
    return {
        path: layer
        for path, layer in module.named_modules()
        if isinstance(layer, nn.Linear | Conv1D) and layer is not head
    }


def layer_size(layer: Any) -> tuple[int, int]:
    """(inputs, outputs) of a linear layer."""
    if isinstance(layer, Conv1D):
        return layer.nx, layer.nf
    return layer.in_features, layer.out_features


def adapter_shapes(layers: Mapping[str, nn.Module], rank: int) -> dict[str, tuple[int, int]]:
    """Returns the shapes of an adapter's matrices beside these layers, by PEFT's names."""
    sizes = {name: layer_size(layer) for name, layer in layers.items()}
    return {
        f"{_PREFIX}{name}.lora_{letter}.weight": shape
        for name, (inputs, outputs) in sizes.items()
        for letter, shape in (("A", (rank, inputs)), ("B", (outputs, rank)))
    }


@torch.no_grad()
def merge(base: Mapping[str, nn.Module], adapter: Mapping[str, Tensor], scale: float) -> None:
    """Add an adapter, by PEFT's names, to the weights of the layers themselves, in fp32."""
    for name, layer in base.items():
        down, up = (adapter[f"{_PREFIX}{name}.lora_{letter}.weight"].float() for letter in "AB")
        change = (up @ down).mul_(scale)
        weight: Any = layer.weight
        weight.copy_(weight.float() + (change.t() if isinstance(layer, Conv1D) else change))


def _ends_so(path: str, target: str) -> bool:
    return path == target or path.endswith(f".{target}")


def _add_product(outputs: Tensor, left: Tensor, matrix: Tensor, scale: float) -> Tensor:
    """outputs + scale * left @ matrix^T, in the dtype of the outputs."""
    flat = torch.addmm(outputs.flatten(0, -2), left.flatten(0, -2), matrix.t(), alpha=scale)
    return flat.view(outputs.shape).to(outputs.dtype)
