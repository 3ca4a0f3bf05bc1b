"""The per-token objective against the paper's formulas, written once more with plain loops and float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from swarm.policy.logprobs import chosen_logprobs
from swarm.policy.loss import clipped_surrogate, clipped_tokens, kl_estimate

CLIP = {"clip_low": 0.2, "clip_high": 0.28}
finite = st.floats(-4, 4, allow_nan=False)


def tensor64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def surrogate_with_loops(logprob: list[float], old: list[float], advantage: list[float]) -> list[tuple[float, float]]:
    """(loss, derivative by the log-prob) of each token: the derivative of r is r, and 0 where it is clipped."""
    result = []
    for new_value, old_value, a in zip(logprob, old, advantage, strict=True):
        ratio = math.exp(new_value - old_value)
        clipped = min(max(ratio, 0.8), 1.28)
        if ratio * a <= clipped * a:
            result.append((-ratio * a, -ratio * a))
        else:
            result.append((-clipped * a, 0.0))
    return result


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=6))
def test_surrogate_and_its_gradient_equal_the_formula(tokens: list[tuple[float, float, float]]) -> None:
    logprob, old, advantage = (list(column) for column in zip(*tokens, strict=True))
    new = torch.tensor(logprob, dtype=torch.float64, requires_grad=True)
    loss = clipped_surrogate(new, tensor64(*old), tensor64(*advantage), **CLIP)
    loss.sum().backward()
    expected = surrogate_with_loops(logprob, old, advantage)
    torch.testing.assert_close(loss.detach(), tensor64(*[value for value, _ in expected]))
    kinks = [abs(math.exp(n - o) - edge) < 1e-9 for n, o in zip(logprob, old, strict=True) for edge in (0.8, 1.28)]
    if not any(kinks):
        torch.testing.assert_close(new.grad, tensor64(*[slope for _, slope in expected]))


def test_surrogate_clips_higher_above_than_below() -> None:
    old = tensor64(0.0, 0.0, 0.0, 0.0)
    new = tensor64(math.log(1.27), math.log(1.29), math.log(0.81), math.log(0.79)).requires_grad_()
    advantage = tensor64(1.0, 1.0, -1.0, -1.0)
    clipped_surrogate(new, old, advantage, **CLIP).sum().backward()
    assert (new.grad != 0).tolist() == [True, False, True, False]
    assert clipped_tokens(new.detach(), old, advantage, **CLIP).tolist() == [False, True, False, True]


def test_clip_never_takes_away_the_gradient_that_leads_back() -> None:
    new = tensor64(math.log(3.0), math.log(0.1)).requires_grad_()
    clipped_surrogate(new, tensor64(0.0, 0.0), tensor64(-1.0, 1.0), **CLIP).sum().backward()
    assert (new.grad != 0).all()
    assert not clipped_tokens(new.detach(), tensor64(0.0, 0.0), tensor64(-1.0, 1.0), **CLIP).any()


def test_surrogate_at_ratio_one_is_the_policy_gradient() -> None:
    new = tensor64(-1.0, -2.0).requires_grad_()
    clipped_surrogate(new, new.detach(), tensor64(0.7, -0.3), **CLIP).sum().backward()
    torch.testing.assert_close(new.grad, tensor64(-0.7, 0.3))


@given(finite, finite)
def test_kl_estimate_is_the_formula_and_never_negative(logprob: float, reference: float) -> None:
    value = kl_estimate(tensor64(logprob), tensor64(reference)).item()
    ratio = math.exp(reference - logprob)
    assert value == pytest.approx(ratio - (reference - logprob) - 1, abs=1e-9)
    assert value >= 0


def test_kl_estimate_averages_to_the_true_divergence() -> None:
    policy, reference = tensor64(0.5, 0.3, 0.2), tensor64(0.2, 0.2, 0.6)
    estimate = (policy * kl_estimate(policy.log(), reference.log())).sum()
    torch.testing.assert_close(estimate, (policy * (policy / reference).log()).sum())


@pytest.mark.parametrize("max_logits", [11 * 7, 11 * 3, 1])
def test_chunked_logprobs_equal_the_full_softmax(max_logits: int) -> None:
    torch.manual_seed(0)
    head = nn.Linear(5, 11, bias=True)
    hidden, chosen = torch.randn(7, 5, requires_grad=True), torch.randint(11, (7,))
    weights = torch.randn(7)
    full = (head(hidden) / 0.7).log_softmax(dim=1)[range(7), chosen]
    expected = torch.autograd.grad((full * weights).sum(), [hidden, *head.parameters()])
    ours = chosen_logprobs(hidden, chosen, head=head, vocabulary=11, temperature=0.7, max_logits=max_logits)
    torch.testing.assert_close(ours, full)
    torch.testing.assert_close(torch.autograd.grad((ours * weights).sum(), [hidden, *head.parameters()]), expected)


def test_chunks_never_hold_all_logits_at_once() -> None:
    sizes: list[int] = []

    def head(hidden: Tensor) -> Tensor:
        sizes.append(len(hidden))
        return hidden.repeat(1, 3)

    hidden = torch.randn(10, 4, requires_grad=True)
    logprob = chosen_logprobs(
        hidden, torch.zeros(10, dtype=torch.long), head=head, vocabulary=12, temperature=1.0, max_logits=48
    )
    logprob.sum().backward()
    assert max(sizes) == 4
    assert sum(sizes) == 20  # forward, and once more in the backward pass


def test_logprobs_are_fp32_whatever_the_head_computes_in() -> None:
    hidden = torch.randn(3, 4, dtype=torch.bfloat16)
    ours = chosen_logprobs(hidden, torch.tensor([0, 1, 2]), head=lambda h: h, vocabulary=4, temperature=1.0)
    assert ours.dtype == torch.float32
