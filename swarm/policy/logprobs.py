"""Log-probs of chosen tokens, without holding the logits of all of them.

The head, which turns hidden states into logits, is almost always one matrix:

    vocabulary ──block by block──▶ logits in one buffer ──▶ running maximum and sum ──▶ log-probs
                                   the same again       ──▶ softmax - one-hot       ──▶ gradients of hidden and head

At V = 151,936 full logits are most of a training step's memory. Parting the vocabulary rather than the tokens reads
every weight once per pass and writes its gradient once; it is the idea of Cut Cross-Entropy, arXiv:2411.09009.
For a head of any other kind the model is asked.

Sizes: M completion tokens, D hidden size, V vocabulary, v entries of one block of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from swarm.policy.model import LanguageModel

MAX_LOGITS = 2**22
"""Logits held at once, 16 MB of fp32: on a CPU at V = 151,936, all of 2**18 to 2**24 took the same time within 8 %.
It also stays within the second-level cache of a large GPU."""
_MIN_WIDTH = 256
"""Narrower blocks would starve the matrix products. So many logits weigh less than the token's activations anyway."""


@dataclass(frozen=True)
class LinearHead:
    """logits = scale * cap(hidden @ weight^T + bias), where cap(z) = soft_cap * tanh(z / soft_cap), if there is one."""

    weight: Tensor
    """[V, D]."""
    bias: Tensor | None = None
    """[V]."""
    soft_cap: float | None = None
    """Gemma 2's final_logit_softcapping."""
    scale: float = 1.0
    """Cohere's logit_scale, or one by Granite's logits_scaling."""

    @classmethod
    def of(cls, model: LanguageModel) -> LinearHead | None:
        """Returns the model's head; None if it is anything but a plain matrix, such as an adapted one."""
        layer = model.module.get_output_embeddings()
        if type(layer) is not nn.Linear:
            return None
        text: Any = model.module.config.get_text_config()
        factor = getattr(text, "logit_scale", None) or 1.0
        divisor = getattr(text, "logits_scaling", None) or 1.0
        return cls(layer.weight, layer.bias, getattr(text, "final_logit_softcapping", None), factor / divisor)


def linear_logprobs(
    hidden_M_D: Tensor, chosen_M: Tensor, head: LinearHead, *, temperature: float, max_logits: int = MAX_LOGITS
) -> Tensor:
    """Returns fp32 log-prob [M] of each chosen token under softmax(logits / temperature); gradients flow to hidden and
    head.

    Under autocast the matrix products are in its dtype, as the model's own head would be, and all else is in fp32.
    """
    device = hidden_M_D.device.type
    if torch.is_autocast_enabled(device):
        hidden_M_D = hidden_M_D.to(torch.get_autocast_dtype(device))
    width = min(len(head.weight), max(_MIN_WIDTH, max_logits // max(1, len(chosen_M))))
    form = _Form(head.soft_cap, head.scale / temperature, width)
    logprob_M: Tensor = _LinearLogprobs.apply(hidden_M_D, head.weight, head.bias, chosen_M, form)  # type: ignore[no-untyped-call]
    return logprob_M


class _Form(NamedTuple):
    """Says how logits come from the matrix product, and how wide a block is."""

    soft_cap: float | None
    scale: float
    width: int


class _Inputs(NamedTuple):
    """Holds what the logits are made of, and which of them are asked for."""

    hidden: Tensor
    """[M, D]."""
    weight: Tensor
    """[V, D]."""
    bias: Tensor | None
    """[V]."""
    chosen: Tensor
    """[M]."""

    @property
    def wide_dtype(self) -> torch.dtype:
        """fp32, or fp64 where the hidden states are."""
        return torch.promote_types(self.hidden.dtype, torch.float32)

    def logit_blocks(self, form: _Form) -> Iterator[tuple[slice, Tensor]]:
        """Yields each part of the vocabulary with its logits [M, v], in one buffer that the next part overwrites."""
        tokens, vocabulary = len(self.hidden), len(self.weight)
        buffer = self.hidden.new_empty(tokens * form.width, dtype=self.wide_dtype)
        for start in range(0, vocabulary, form.width):
            part = slice(start, min(start + form.width, vocabulary))
            width = part.stop - part.start
            logits_M_v = buffer[: tokens * width].view(tokens, width)
            yield part, self._write_logits(logits_M_v, part, form)

    def _write_logits(self, logits_M_v: Tensor, part: slice, form: _Form) -> Tensor:
        _write_product(logits_M_v, self.hidden, self.weight[part].to(self.hidden.dtype).t())
        if self.bias is not None:
            logits_M_v.add_(self.bias[part])
        if form.soft_cap is not None:
            logits_M_v.div_(form.soft_cap).tanh_().mul_(form.soft_cap)
        return logits_M_v.mul_(form.scale)

    def chosen_in(self, part: slice) -> tuple[Tensor, Tensor]:
        """Column [M, 1] of each token's chosen logit in a block, and bool [M, 1]: False if it is not in there."""
        column_M_1 = self.chosen[:, None] - part.start
        width = part.stop - part.start
        return column_M_1.clamp(0, width - 1), (column_M_1 >= 0) & (column_M_1 < width)


class _Softmax(NamedTuple):
    """A token's probability is exp(logit - top) / total."""

    top: Tensor
    """[M, 1]."""
    total: Tensor
    """[M, 1]."""
    weights: Tensor | None
    """[M, V], exp(logit - top) where the vocabulary is one block: too little to compute it again."""


class _LinearLogprobs(torch.autograd.Function):
    """Keeps a maximum and a sum per token, and computes the logits again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, hidden_M_D: Tensor, weight_V_D: Tensor, bias_V: Tensor | None, chosen_M: Tensor, form: _Form
    ) -> Tensor:
        inputs = _Inputs(hidden_M_D, weight_V_D, bias_V, chosen_M)
        logprob_M, softmax = _logprobs(inputs, form)
        ctx.save_for_backward(*inputs, *softmax)
        ctx.form = form
        return logprob_M

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_M: Tensor) -> tuple[Tensor | None, ...]:
        inputs, softmax = _Inputs(*ctx.saved_tensors[:4]), _Softmax(*ctx.saved_tensors[4:])
        hidden_M_D, weight_V_D, bias_V, _ = inputs
        needs_weight, needs_bias = ctx.needs_input_grad[1:3]
        grad_hidden_M_D = torch.zeros_like(hidden_M_D, dtype=inputs.wide_dtype)
        grad_weight_V_D = torch.empty_like(weight_V_D) if needs_weight else None
        grad_bias_V = torch.empty_like(bias_V) if bias_V is not None and needs_bias else None
        for part, grad_M_v in _logit_gradients(inputs, softmax, grad_M[:, None], ctx.form):
            if grad_bias_V is not None:
                grad_bias_V[part] = grad_M_v.sum(dim=0)
            narrow_M_v = grad_M_v.to(hidden_M_D.dtype)
            _add_product(grad_hidden_M_D, narrow_M_v, weight_V_D[part].to(hidden_M_D.dtype))
            if grad_weight_V_D is not None:
                _write_product(grad_weight_V_D[part], narrow_M_v.t(), hidden_M_D)
        return grad_hidden_M_D.to(hidden_M_D.dtype), grad_weight_V_D, grad_bias_V, None, None


def _logprobs(inputs: _Inputs, form: _Form) -> tuple[Tensor, _Softmax]:
    """Returns log-probs [M] in one pass over the blocks, by the online softmax of arXiv:1805.02867."""
    top_M_1 = inputs.hidden.new_full((len(inputs.hidden), 1), -torch.inf, dtype=inputs.wide_dtype)
    total_M_1 = chosen_logit_M_1 = torch.zeros_like(top_M_1)
    for part, logits_M_v in inputs.logit_blocks(form):
        column_M_1, inside_M_1 = inputs.chosen_in(part)
        chosen_logit_M_1 = torch.where(inside_M_1, logits_M_v.gather(1, column_M_1), chosen_logit_M_1)
        higher_M_1 = torch.maximum(top_M_1, logits_M_v.amax(dim=1, keepdim=True))
        weight_M_v = logits_M_v.sub_(higher_M_1).exp_()
        total_M_1 = total_M_1 * (top_M_1 - higher_M_1).exp() + weight_M_v.sum(dim=1, keepdim=True)
        top_M_1 = higher_M_1
    keeps = form.width == len(inputs.weight) and form.soft_cap is None
    logprob_M = (chosen_logit_M_1 - top_M_1 - total_M_1.log()).squeeze(1)
    return logprob_M, _Softmax(top_M_1, total_M_1, weight_M_v if keeps else None)


def _logit_gradients(
    inputs: _Inputs, softmax: _Softmax, grad_M_1: Tensor, form: _Form
) -> Iterator[tuple[slice, Tensor]]:
    """Yields each part of the vocabulary with the gradient [M, v] of what comes out of the matrix product."""
    grad_M_1 = grad_M_1 * form.scale
    factor_M_1 = -grad_M_1 / softmax.total
    if softmax.weights is not None:
        part = slice(0, len(inputs.weight))
        yield part, _add_chosen(softmax.weights * factor_M_1, inputs, part, grad_M_1)
        return
    for part, logits_M_v in inputs.logit_blocks(form):
        slope_M_v = None if form.soft_cap is None else 1 - (logits_M_v / (form.soft_cap * form.scale)).square_()
        grad_M_v = logits_M_v.sub_(softmax.top).exp_().mul_(factor_M_1)
        _add_chosen(grad_M_v, inputs, part, grad_M_1)
        yield part, grad_M_v if slope_M_v is None else grad_M_v.mul_(slope_M_v)


def _add_chosen(grad_M_v: Tensor, inputs: _Inputs, part: slice, grad_M_1: Tensor) -> Tensor:
    column_M_1, inside_M_1 = inputs.chosen_in(part)
    return grad_M_v.scatter_add_(1, column_M_1, grad_M_1 * inside_M_1)


def _write_product(target: Tensor, left: Tensor, right: Tensor) -> None:
    """target = left @ right, in the dtype of the factors, then widened to the target's."""
    if target.dtype == left.dtype:
        torch.mm(left, right, out=target)
    else:
        target.copy_(left @ right)


def _add_product(target: Tensor, left: Tensor, right: Tensor) -> None:
    """target += left @ right, likewise."""
    if target.dtype == left.dtype:
        target.addmm_(left, right)
    else:
        target.add_(left @ right)


def chosen_logprobs(
    hidden_M_D: Tensor, chosen_M: Tensor, *, head: Callable[[Tensor], Tensor], temperature: float
) -> Tensor:
    """Returns the same for a head that is no plain matrix. It holds all logits [M, V] at once."""
    logits_M_V = head(hidden_M_D).float() / temperature
    return logits_M_V.gather(1, chosen_M[:, None]).squeeze(1) - logits_M_V.logsumexp(dim=1)
