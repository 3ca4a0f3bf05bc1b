"""Checks the objectives of control runs."""

from __future__ import annotations

import torch

from swarm.algo.losses import LossInputs, LossSettings
from swarm.plugins.lab.control_losses import cloning


def test_cloning_learns_peers_right_texts_by_their_likelihood_and_nothing_else() -> None:
    logprob_M = torch.tensor([-1.0, -2.0, -3.0, -4.0], requires_grad=True)
    inputs = LossInputs(
        logprobs=logprob_M,
        old_logprobs=logprob_M.detach(),
        reference_logprobs=None,
        advantages=torch.tensor([1.0, 2.0, -1.0, 0.0]),
        own=torch.tensor([True, False, False, False]),
        weights=None,
        completion=torch.arange(4),
        lengths=torch.ones(4),
    )
    losses = cloning(inputs, LossSettings())
    (gradient_M,) = torch.autograd.grad(losses.loss.sum(), logprob_M)
    assert gradient_M.tolist() == [0, -1, 0, 0], "own, right text of a peer, wrong one, one without an advantage"
