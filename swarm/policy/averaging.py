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
from swarm.policy.optimizer import to_host
from swarm.policy.settings import OuterConfig


@dataclass(frozen=True)
class OuterState:
    """Holds what DiLoCo's outer optimizer remembers, by parameter name, in host memory."""

    shared: dict[str, Tensor]
    momentum: dict[str, Tensor]


def as_file(trained: Mapping[str, Tensor]) -> bytes:
    """Returns the trained parameters as the contents of a safetensors file."""
    contents: bytes = save({name: to_host(tensor).contiguous() for name, tensor in trained.items()})
    return contents


def refuse_unfit(file: str, trained: Mapping[str, Tensor]) -> None:
    """See that a local file holds tensors of these names, shapes and types, and finite numbers.

    Raises:
        ProtocolError: `malformed`, `other_weights` or `not_finite`.
    """
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


class ParameterAveraging:
    """Averages one node's trained parameters with those in files."""

    def __init__(self, trained: Mapping[str, Tensor], outer: OuterConfig | None) -> None:
        """`outer`: of DiLoCo; None: the mean itself becomes the weights."""
        self._trained = trained
        self._outer = outer
        initial = {name: to_host(tensor) for name, tensor in trained.items()} if outer else {}
        self._state = OuterState(initial, {name: torch.zeros_like(tensor) for name, tensor in initial.items()})

    @torch.no_grad()
    def average(self, files: Sequence[str]) -> None:
        """Overwrite the parameters in place by what comes of these files, which are known to fit."""
        for name, mean in _means(files, list(self._trained)):
            self._trained[name].copy_(self._stepped(name, mean) if self._outer else mean)

    def _stepped(self, name: str, mean: Tensor) -> Tensor:
        assert self._outer
        shared, momentum = self._state.shared[name], self._state.momentum[name]
        gradient = shared - mean
        momentum.mul_(self._outer.momentum).add_(gradient)
        shared.sub_(gradient.add(momentum, alpha=self._outer.momentum), alpha=self._outer.rate)
        return shared

    def state(self) -> OuterState | None:
        """Returns a copy; None where there is no outer optimizer."""
        if not self._outer:
            return None
        return OuterState(*({name: to_host(t) for name, t in part.items()} for part in vars(self._state).values()))

    def load_state(self, state: OuterState | None) -> None:
        """Go on from a state whose names and shapes are known to fit."""
        if state:
            self._state = OuterState(*({name: to_host(t) for name, t in part.items()} for part in vars(state).values()))


def _means(files: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
    """Yields each tensor's mean over the files, added up in their order."""
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(file, framework="pt")) for file in files]
        for name in names:
            total = opened[0].get_tensor(name).clone()
            for other in opened[1:]:
                total.add_(other.get_tensor(name))
            yield name, total.div_(len(opened))
