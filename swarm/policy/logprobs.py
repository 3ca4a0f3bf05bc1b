"""Log-probs of chosen tokens, without holding the logits of all of them.

The head, which turns hidden states into logits, is almost always one matrix:

    vocabulary ──block by block──▶ logits in one buffer ──▶ running maximum and sum ──▶ log-probs
                                   the same again       ──▶ softmax - one-hot       ──▶ gradients of hidden and head

At V = 151,936 full logits are most of a training step's memory. Parting the vocabulary rather than the tokens reads
every weight once per pass and writes its gradient once; it is the idea of Cut Cross-Entropy, arXiv:2411.09009.
What is done with a block passes over its logits ten times; torch.compile can make that two passes (compiled.py).
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

from swarm.policy.settings import logits_width


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
    def of(cls, module: Any) -> LinearHead | None:
        """Returns a model's head; None if it is anything but a plain matrix, such as an adapted one."""
        layer = module.get_output_embeddings()
        if type(layer) is not nn.Linear:
            return None
        text: Any = module.config.get_text_config()
        factor = getattr(text, "logit_scale", None) or 1.0
        divisor = getattr(text, "logits_scaling", None) or 1.0
        return cls(layer.weight, layer.bias, getattr(text, "final_logit_softcapping", None), factor / divisor)


def linear_logprobs(
    hidden_M_D: Tensor,
    chosen_M: Tensor,
    head: LinearHead,
    *,
    temperature: float,
    width: int | None = None,
    blocks: BlockWork | None = None,
) -> Tensor:
    """Returns fp32 log-prob [M] of each chosen token under softmax(logits / temperature); gradients flow to hidden and
    head.

    Under autocast the matrix products are in its dtype, as the model's own head would be, and all else is in fp32.

    Args:
        width: entries of the vocabulary in one block; None: as logits_width says.
        blocks: what is done with each block; None: PLAIN.
    """
    device = hidden_M_D.device.type
    if torch.is_autocast_enabled(device):
        hidden_M_D = hidden_M_D.to(torch.get_autocast_dtype(device))
    vocabulary = len(head.weight)
    width = width or logits_width(len(chosen_M), vocabulary, on_gpu=device == "cuda")
    form = _Form(head.soft_cap, head.scale / temperature)
    parting = _Parting(form, min(width, vocabulary), blocks or PLAIN)
    logprob_M: Tensor = _LinearLogprobs.apply(hidden_M_D, head.weight, head.bias, chosen_M, parting)  # type: ignore[no-untyped-call]
    return logprob_M


class _Form(NamedTuple):
    """Says how logits come from the matrix product."""

    soft_cap: float | None
    scale: float


class _Block(NamedTuple):
    """A part of the vocabulary, and all that its logits are made of."""

    hidden: Tensor
    """[M, D]."""
    weight: Tensor
    """[v, D]."""
    bias: Tensor | None
    """[v]."""
    column: Tensor
    """[M, 1], of each token's chosen logit; in another block where it is below 0, or v or more."""

    def logits(self, form: _Form, buffer: Tensor | None) -> Tensor:
        """Returns them [M, v] in the wide dtype, and in the buffer's memory if there is one."""
        left, right = self.hidden, self.weight.to(self.hidden.dtype).t()
        if buffer is None:
            logits_M_v = (left @ right).to(wide_dtype(left))
        else:
            logits_M_v = buffer[: len(left) * right.shape[1]].view(len(left), -1)
            _write_product(logits_M_v, left, right)
        if self.bias is not None:
            logits_M_v.add_(self.bias)
        if form.soft_cap is not None:
            logits_M_v.div_(form.soft_cap).tanh_().mul_(form.soft_cap)
        return logits_M_v if form.scale == 1 else logits_M_v.mul_(form.scale)

    def chosen(self) -> tuple[Tensor, Tensor]:
        """Returns the column [M, 1] of each token's chosen logit, any if it is in another block, and bool [M, 1]: it is
        in this one."""
        width = len(self.weight)
        return self.column.clamp(0, width - 1), (self.column >= 0) & (self.column < width)


class _Softmax(NamedTuple):
    """A token's probability is exp(logit - top) / total."""

    top: Tensor
    """[M, 1]."""
    total: Tensor
    """[M, 1]."""


class _Seen(NamedTuple):
    """Holds what is known of each token once some blocks have been read."""

    softmax: _Softmax
    """Over these blocks alone."""
    chosen_logit: Tensor
    """[M, 1]; 0 until it has been seen."""


def read_block(block: _Block, seen: _Seen, form: _Form, buffer: Tensor | None) -> tuple[_Seen, Tensor]:
    """Returns what is known with one more block, by the online softmax of arXiv:1805.02867, and its exp(logit - top)
    [M, v]."""
    (top_M_1, total_M_1), chosen_logit_M_1 = seen
    logits_M_v = block.logits(form, buffer)
    column_M_1, inside_M_1 = block.chosen()
    chosen_logit_M_1 = torch.where(inside_M_1, logits_M_v.gather(1, column_M_1), chosen_logit_M_1)
    higher_M_1 = torch.maximum(top_M_1, logits_M_v.amax(dim=1, keepdim=True))
    weight_M_v = logits_M_v.sub_(higher_M_1).exp_()
    total_M_1 = total_M_1 * (top_M_1 - higher_M_1).exp() + weight_M_v.sum(dim=1, keepdim=True)
    return _Seen(_Softmax(higher_M_1, total_M_1), chosen_logit_M_1), weight_M_v


def read_block_alone(block: _Block, seen: _Seen, form: _Form, buffer: Tensor | None) -> tuple[_Seen, None]:
    """Returns the same without what is as large as the logits, so that a compiler need not write it."""
    return read_block(block, seen, form, buffer)[0], None


def block_gradient(block: _Block, softmax: _Softmax, grad_M_1: Tensor, form: _Form, buffer: Tensor | None) -> Tensor:
    """Returns the gradient [M, v] of what comes out of the block's matrix product, in that one's dtype.

    Args:
        grad_M_1: of each token's log-prob.
    """
    logits_M_v = block.logits(form, buffer)
    slope_M_v = None if form.soft_cap is None else 1 - (logits_M_v / (form.soft_cap * form.scale)).square_()
    grad_M_1 = grad_M_1 * form.scale
    grad_M_v = logits_M_v.sub_(softmax.top).exp_().mul_(-grad_M_1 / softmax.total)
    grad_M_v = _add_chosen(grad_M_v, block, grad_M_1)
    return (grad_M_v if slope_M_v is None else grad_M_v.mul_(slope_M_v)).to(block.hidden.dtype)


def _add_chosen(grad_M_v: Tensor, block: _Block, grad_M_1: Tensor) -> Tensor:
    """Adds the gradient of the chosen logits to that of their softmax."""
    if torch.compiler.is_compiling():  # part of one pass; by itself it would be two more
        place_v = torch.arange(len(block.weight), device=block.column.device)
        return grad_M_v + grad_M_1 * (place_v == block.column)
    column_M_1, inside_M_1 = block.chosen()
    return grad_M_v.scatter_add_(1, column_M_1, grad_M_1 * inside_M_1)


class BlockWork(NamedTuple):
    """The two functions that pass over a block's logits."""

    read: Callable[[_Block, _Seen, _Form, Tensor | None], tuple[_Seen, Tensor | None]]
    gradient: Callable[[_Block, _Softmax, Tensor, _Form, Tensor | None], Tensor]
    buffered: bool
    """They are given memory for the logits; else the compiler finds its own."""


PLAIN = BlockWork(read_block, block_gradient, buffered=True)


class _Parting(NamedTuple):
    """Says how the vocabulary is parted, and what is done with the parts."""

    form: _Form
    width: int
    work: BlockWork

    def blocks(
        self, hidden_M_D: Tensor, weight_V_D: Tensor, bias_V: Tensor | None, chosen_M: Tensor
    ) -> Iterator[tuple[slice, _Block]]:
        """Yields each part of the vocabulary."""
        for start in range(0, len(weight_V_D), self.width):
            part = slice(start, min(start + self.width, len(weight_V_D)))
            bias_v = None if bias_V is None else bias_V[part]
            yield part, _Block(hidden_M_D, weight_V_D[part], bias_v, chosen_M[:, None] - start)

    def buffer(self, hidden_M_D: Tensor) -> Tensor | None:
        """Returns memory for the logits of one block, which the next one overwrites."""
        if not self.work.buffered:
            return None
        return hidden_M_D.new_empty(len(hidden_M_D) * self.width, dtype=wide_dtype(hidden_M_D))

    def keeps(self, weight_V_D: Tensor) -> bool:
        """Tells whether the vocabulary is one block: too little to compute it again, but where that costs no pass."""
        return self.work.buffered and self.width == len(weight_V_D) and self.form.soft_cap is None


class _LinearLogprobs(torch.autograd.Function):
    """Keeps a maximum and a sum per token, and computes the logits again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, hidden_M_D: Tensor, weight_V_D: Tensor, bias_V: Tensor | None, chosen_M: Tensor, parting: _Parting
    ) -> Tensor:
        buffer = parting.buffer(hidden_M_D)
        top_M_1 = hidden_M_D.new_full((len(hidden_M_D), 1), -torch.inf, dtype=wide_dtype(hidden_M_D))
        seen = _Seen(_Softmax(top_M_1, torch.zeros_like(top_M_1)), torch.zeros_like(top_M_1))
        for _, block in parting.blocks(hidden_M_D, weight_V_D, bias_V, chosen_M):
            seen, weight_M_v = parting.work.read(block, seen, parting.form, buffer)
        kept = weight_M_v if parting.keeps(weight_V_D) else None
        ctx.save_for_backward(hidden_M_D, weight_V_D, bias_V, chosen_M, *seen.softmax, kept)
        ctx.parting = parting
        return (seen.chosen_logit - seen.softmax.top - seen.softmax.total.log()).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_M: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, top_M_1, total_M_1, kept_M_V = ctx.saved_tensors
        hidden_M_D, weight_V_D, bias_V, _ = inputs
        parting: _Parting = ctx.parting
        softmax, grad_M_1 = _Softmax(top_M_1, total_M_1), grad_M[:, None]
        needs_weight, needs_bias = ctx.needs_input_grad[1:3]
        buffer = parting.buffer(hidden_M_D) if kept_M_V is None else None
        grad_hidden_M_D = torch.zeros_like(hidden_M_D, dtype=wide_dtype(hidden_M_D))
        grad_weight_V_D = torch.empty_like(weight_V_D) if needs_weight else None
        grad_bias_V = torch.empty_like(bias_V) if bias_V is not None and needs_bias else None
        for part, block in parting.blocks(*inputs):
            if kept_M_V is None:
                grad_M_v = parting.work.gradient(block, softmax, grad_M_1, parting.form, buffer)
            else:
                scaled_M_1 = grad_M_1 * parting.form.scale
                grad_M_v = _add_chosen(kept_M_V * (-scaled_M_1 / total_M_1), block, scaled_M_1).to(hidden_M_D.dtype)
            if grad_bias_V is not None:
                torch.sum(grad_M_v, dim=0, dtype=grad_bias_V.dtype, out=grad_bias_V[part])
            _add_product(grad_hidden_M_D, grad_M_v, weight_V_D[part].to(hidden_M_D.dtype))
            if grad_weight_V_D is not None:
                _write_product(grad_weight_V_D[part], grad_M_v.t(), hidden_M_D)
        return grad_hidden_M_D.to(hidden_M_D.dtype), grad_weight_V_D, grad_bias_V, None, None


def wide_dtype(hidden: Tensor) -> torch.dtype:
    """fp32, or fp64 where the hidden states are."""
    return torch.promote_types(hidden.dtype, torch.float32)


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
