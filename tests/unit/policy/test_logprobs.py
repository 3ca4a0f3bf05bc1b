"""Log-probs of a head of any kind, in chunks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from swarm.policy.logprobs import chosen_logprobs


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
