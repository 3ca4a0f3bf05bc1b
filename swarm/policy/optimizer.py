"""Turns a summed gradient into an update of the weights: scale ──▶ clip ──▶ AdamW at a warmed-up learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm.errors import ModelError
from swarm.policy.settings import GrpoConfig


@dataclass(frozen=True)
class OptimizerState:
    """AdamW's memory, by parameter name, in host memory."""

    updates: int
    """Optimizer steps so far: the position in the learning-rate schedule."""
    steps: dict[str, int]
    """Steps per parameter, for Adam's bias correction."""
    first_moments: dict[str, Tensor]
    second_moments: dict[str, Tensor]


class Optimizer:
    """AdamW over named parameters, whose `.grad` holds a sum over tokens."""

    def __init__(self, parameters: Mapping[str, Tensor], config: GrpoConfig) -> None:
        self._parameters = dict(parameters)
        self._config = config
        self._adam = torch.optim.AdamW(
            self._parameters.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )
        self.updates = 0

    def scale_and_clip(self, divisor: float) -> Tensor:
        """Divide the gradient by what the loss is divided by, and clip it. Returns its global L2 norm before clipping.

        The norm stays on the device. One pass reads and one writes every gradient, and nothing waits for the device.
        """
        gradients = [parameter.grad for parameter in self._parameters.values() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) / divisor
        factor = ((self._config.max_grad_norm or math.inf) / (norm + 1e-6)).clamp(max=1.0) / divisor
        torch._foreach_mul_(gradients, factor)
        return norm

    def step(self) -> None:
        """Move the weights.

        Raises:
            ModelError: Adam's moments, allocated in the first step, do not fit into the GPU's memory.
        """
        warmup = min(1.0, (self.updates + 1) / max(1, self._config.warmup_steps))
        for group in self._adam.param_groups:
            group["lr"] = self._config.learning_rate * warmup
        try:
            self._adam.step()
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"training: no GPU memory left for Adam's moments. Run fewer nodes on it. {error}"
            ) from error
        self.updates += 1

    def step_on_zero(self) -> None:
        """Move the weights as by a gradient of zero: what momentum holds of earlier ones. Raises as `step`."""
        for parameter in self._parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        self.step()

    def state(self) -> OptimizerState:
        """Returns a copy of the optimizer's memory."""
        slots = {name: self._adam.state[p] for name, p in self._parameters.items() if p in self._adam.state}
        return OptimizerState(
            updates=self.updates,
            steps={name: int(slot["step"].item()) for name, slot in slots.items()},
            first_moments={name: to_host(slot["exp_avg"]) for name, slot in slots.items()},
            second_moments={name: to_host(slot["exp_avg_sq"]) for name, slot in slots.items()},
        )

    def load_state(self, state: OptimizerState) -> None:
        """Go on from a state whose names and shapes are known to fit."""
        self.updates = state.updates
        self._adam.state.clear()
        for name, steps in state.steps.items():
            parameter = self._parameters[name]
            self._adam.state[parameter] = {
                "step": torch.tensor(float(steps), device=parameter.device),
                "exp_avg": state.first_moments[name].to(parameter.device, copy=True),
                "exp_avg_sq": state.second_moments[name].to(parameter.device, copy=True),
            }


def to_host(tensor: Tensor) -> Tensor:
    """Returns a copy in host memory that later updates do not change."""
    return tensor.detach().to("cpu", copy=True)
