"""Log-probs block by block of the vocabulary, against log-softmax of all logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import CohereConfig, Gemma2Config, GraniteConfig

from swarm.policy.load_probe import refuse_unlike
from swarm.policy.logprobs import LinearHead, linear_logprobs
from swarm.policy.model import wrap_model
from tests.unit.policy.factories import ARCHITECTURES, CPU, SHAPE, make_model, make_module, make_tokenizer

V, D, M = 40, 5, 9
VARIANTS = {"plain": {}, "bias": {"bias": True}, "capped": {"soft_cap": 2.0}, "scaled": {"scale": 0.3}}
VARIANTS["everything"] = {"bias": True, "soft_cap": 1.5, "scale": 1.7}
WIDTHS = {"one block": V, "even blocks": 8, "ragged blocks": 11, "single columns": 1}


def make_head(*, bias: bool = False, dtype: torch.dtype = torch.float32, **form: Any) -> LinearHead:
    torch.manual_seed(1)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return LinearHead(weight, torch.randn(V, dtype=dtype, requires_grad=True) if bias else None, **form)


def make_input(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(M, D, dtype=dtype, requires_grad=True), torch.randint(V, (M,))


def parameters_of(head: LinearHead) -> list[Tensor]:
    return [head.weight] if head.bias is None else [head.weight, head.bias]


def full_logprobs(hidden: Tensor, chosen: Tensor, head: LinearHead, temperature: float) -> Tensor:
    logits = nn.functional.linear(hidden, head.weight, head.bias).to(torch.promote_types(hidden.dtype, torch.float32))
    if head.soft_cap is not None:
        logits = torch.tanh(logits / head.soft_cap) * head.soft_cap
    return (logits * head.scale / temperature).log_softmax(dim=1)[range(len(chosen)), chosen]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_blocks_give_the_values_and_gradients_of_full_logits(variant: str, width: str) -> None:
    head, (hidden, chosen) = make_head(**VARIANTS[variant]), make_input()
    weights = torch.randn(M)
    expected = full_logprobs(hidden, chosen, head, 0.7)
    ours = linear_logprobs(hidden, chosen, head, temperature=0.7, width=WIDTHS[width])
    torch.testing.assert_close(ours, expected)
    inputs = [hidden, *parameters_of(head)]
    torch.testing.assert_close(
        torch.autograd.grad((ours * weights).sum(), inputs), torch.autograd.grad((expected * weights).sum(), inputs)
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_logits_far_apart_do_not_overflow(width: str) -> None:
    head, (hidden, chosen) = make_head(), make_input()
    ours = linear_logprobs(hidden * 1e3, chosen, head, temperature=1.0, width=WIDTHS[width])
    torch.testing.assert_close(ours, full_logprobs(hidden * 1e3, chosen, head, 1.0))


@pytest.mark.parametrize("width", ["one block", "ragged blocks"])
@pytest.mark.parametrize("bias", [False, True])
def test_under_autocast_products_are_bf16_and_all_else_is_fp32(width: str, bias: bool) -> None:
    head, (hidden, chosen) = make_head(bias=bias), make_input()
    inputs = [hidden, *parameters_of(head)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = full_logprobs(hidden, chosen, head, 0.7)
        ours = linear_logprobs(hidden, chosen, head, temperature=0.7, width=WIDTHS[width])
    assert ours.dtype == torch.float32
    exact = full_logprobs(hidden, chosen, head, 0.7)
    assert 1e-5 < (ours - exact).abs().max().item() < 0.2
    torch.testing.assert_close(ours, expected, atol=0.03, rtol=0)
    gradients = torch.autograd.grad(ours.sum(), inputs)
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    torch.testing.assert_close(gradients, torch.autograd.grad(exact.sum(), inputs), atol=0.1, rtol=0.02)


class _LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that any operation returns, views of larger ones aside."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.largest = max(self.largest, tensor.numel())
        return result


def test_no_tensor_is_larger_than_the_buffer_or_the_weights() -> None:
    hidden = torch.randn(200, 4, requires_grad=True)
    head = LinearHead(torch.randn(1000, 4, requires_grad=True))
    with _LargestTensor() as seen:
        linear_logprobs(hidden, torch.randint(1000, (200,)), head, temperature=1.0, width=15).sum().backward()
    assert seen.largest == head.weight.numel() == 4000  # all logits would be 200,000


def test_frozen_weights_get_no_gradient() -> None:
    hidden, chosen = make_input()
    head = LinearHead(torch.randn(V, D), torch.randn(V))
    (gradient,) = torch.autograd.grad(linear_logprobs(hidden, chosen, head, temperature=1.0).sum(), [hidden])
    (expected,) = torch.autograd.grad(full_logprobs(hidden, chosen, head, 1.0).sum(), [hidden])
    torch.testing.assert_close(gradient, expected)


SCALED = {
    "gemma2": lambda: Gemma2Config(**SHAPE, head_dim=8, final_logit_softcapping=3.0),
    "granite": lambda: GraniteConfig(**SHAPE, logits_scaling=4.0),
    "cohere": lambda: CohereConfig(**SHAPE, logit_scale=0.25),
    **dict.fromkeys(ARCHITECTURES),
}


@pytest.mark.parametrize("architecture", SCALED)
def test_head_of_a_model_is_what_the_model_itself_computes(architecture: str) -> None:
    if make_config := SCALED[architecture]:
        torch_module = make_module(config=make_config())
        model = wrap_model(architecture, torch_module, make_tokenizer(), device=CPU, max_new_tokens=4)
    else:
        model = make_model(architecture)
    refuse_unlike(model)  # log-probs are those of transformers' own pass
    hidden, chosen = torch.randn(M, 32), torch.randint(264, (M,))
    head = LinearHead.of(model.module)
    assert head is not None
    ours = linear_logprobs(hidden, chosen, head, temperature=0.5)
    expected = (model.logits(hidden) / 0.5).log_softmax(dim=1)[range(M), chosen]
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
