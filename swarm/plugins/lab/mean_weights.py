"""The mean of several nodes' weights, and DiLoCo's outer step towards it (arXiv:2311.08105, algorithm 1).

    files of k nodes, in order ─▶ mean = (w_1 + ... + w_k) / k ─┬─ plain ──▶ the weights of every node
                                                                └─ diloco ─▶ gradient = shared - mean
                                                                             momentum = mu momentum + gradient
                                                                             shared -= rate (gradient + mu momentum)

`shared` are the weights after the last averaging, at first the initial ones: the same on all nodes that begin with the
same model and average the same files. Sums of floats depend on their order, so the files come in a fixed one: then all
nodes compute the same bits. Computed in fp32 in host memory, one tensor after the other, whatever the nodes train on.
The momentum is Nesterov's as in torch.optim.SGD, which DiLoCo's authors use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from swarm.errors import ProtocolError
from swarm.policy.gradient import to_host
from swarm.policy.parts import TrainedWeights

SHARED, MOMENTUM = "shared/", "momentum/"
"""What names in a checkpoint begin with."""


@dataclass(frozen=True)
class OuterConfig:
    """DiLoCo's outer optimizer: SGD with Nesterov momentum on the averaged weights (arXiv:2311.08105, section 2)."""

    rate: float = 0.7
    momentum: float = 0.9


def refuse_unfit(file: str, trained: Mapping[str, Tensor]) -> None:
    """Raises ProtocolError as WeightAveraging.refuse_weights."""
    try:
        with safe_open(file, framework="pt") as opened:
            there = set(opened.keys())
            if there != trained.keys():
                odd = sorted(there ^ trained.keys())[0]
                raise ProtocolError("other_weights", f"expected the tensors of this node's model, {odd!r} differs")
            for name, own in trained.items():
                _refuse_tensor(name, opened.get_tensor(name), own)
    except (OSError, SafetensorError) as error:
        raise ProtocolError("malformed", f"expected a safetensors file: {error}") from None


def _refuse_tensor(name: str, tensor: Tensor, own: Tensor) -> None:
    expected, got = (own.dtype, tuple(own.shape)), (tensor.dtype, tuple(tensor.shape))
    if expected != got:
        raise ProtocolError("other_weights", f"{name}: expected {expected}, got {got}")
    if not bool(tensor.isfinite().all()):
        raise ProtocolError("not_finite", f"{name}: expected finite numbers")


class WeightAveraging:
    """Averages one node's trained parameters with those in files. Implements swarm.policy.parts.TrainerPart."""

    file = "outer.safetensors"
    remedy = "Set SWARM_AVERAGE_EVERY and SWARM_AVERAGING to what wrote the checkpoint, or choose another NODE_ID."

    def __init__(self, trained: TrainedWeights, outer: OuterConfig | None) -> None:
        """`outer`: of DiLoCo; None: the mean itself becomes the weights."""
        self._trained = trained.weights
        self._forget = trained.forget
        self._outer = outer
        self._shared = {name: to_host(tensor) for name, tensor in self._trained.items()} if outer else {}
        """The weights after the last averaging, in host memory."""
        self._momentum = {name: torch.zeros_like(tensor) for name, tensor in self._shared.items()}

    def export_weights(self) -> bytes:
        """Returns the trained parameters as the contents of a safetensors file."""
        contents: bytes = save({name: to_host(tensor).contiguous() for name, tensor in self._trained.items()})
        return contents

    def refuse_weights(self, file: str) -> None:
        """See that a local file holds tensors of these names, shapes and types, and finite numbers.

        Raises:
            ProtocolError: `malformed`, `other_weights` or `not_finite`.
        """
        refuse_unfit(file, self._trained)

    @torch.no_grad()
    def average(self, files: Sequence[str]) -> None:
        """Overwrite the parameters in place by what comes of these files, which are known to fit."""
        self._forget()
        for name, mean in _means(files, list(self._trained)):
            self._trained[name].copy_(self._stepped(name, mean) if self._outer else mean)

    def _stepped(self, name: str, mean: Tensor) -> Tensor:
        assert self._outer
        shared, momentum = self._shared[name], self._momentum[name]
        gradient = shared - mean
        momentum.mul_(self._outer.momentum).add_(gradient)
        shared.sub_(gradient.add(momentum, alpha=self._outer.momentum), alpha=self._outer.rate)
        return shared

    def state(self) -> dict[str, Tensor]:
        """Returns a copy of what DiLoCo's outer optimizer remembers; empty where there is none."""
        shared = {SHARED + name: to_host(tensor) for name, tensor in self._shared.items()}
        return shared | {MOMENTUM + name: to_host(tensor) for name, tensor in self._momentum.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state whose names and shapes are known to fit."""
        self._shared = {name: to_host(state[SHARED + name]) for name in self._shared}
        self._momentum = {name: to_host(state[MOMENTUM + name]) for name in self._momentum}


def _means(files: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
    """Yields each tensor's mean over the files, added up in their order."""
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(file, framework="pt")) for file in files]
        for name in names:
            total = opened[0].get_tensor(name).clone()
            for other in opened[1:]:
                total.add_(other.get_tensor(name))
            yield name, total.div_(len(opened))
