"""Draws the next token of each row, with its log-prob.

    logits ─÷ temperature, log-softmax─▶ log-probs ─truncate─▶ weights ─invert their sum at u─▶ token, its log-prob

Log-probs are those at the temperature and before any truncation: what the trainer computes as well.
Sizes: L live rows, V vocabulary, k tokens kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """Says how tokens are drawn; see GrpoConfig for the meaning."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0


def draw_tokens(logits_L_V: Tensor, uniform_L: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Sampled ids [L] by inverting the cumulative distribution at uniform_L, and their log-probs [L]."""
    if sampling.temperature != 1:
        logits_L_V = logits_L_V / sampling.temperature
    logprob_L_V = logits_L_V.log_softmax(dim=1)
    weight_L_V = truncate(logprob_L_V.exp(), sampling)
    cumulative_L_V = weight_L_V.cumsum(dim=1, dtype=torch.float64)
    total_L_1 = cumulative_L_V[:, -1:]
    # Rounding could lift u x total to total itself, behind the last token that has any weight.
    below_total_L_1 = torch.nextafter(total_L_1, torch.zeros_like(total_L_1))
    point_L_1 = torch.minimum(uniform_L[:, None] * total_L_1, below_total_L_1)
    token_L_1 = torch.searchsorted(cumulative_L_V, point_L_1, right=True)
    token_L_1 = token_L_1.clamp(max=logits_L_V.shape[1] - 1)  # of NaN logits, which the caller finds by their log-prob
    return token_L_1.squeeze(1), logprob_L_V.gather(1, token_L_1).squeeze(1)


def truncate(prob_L_V: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities with those that may not be drawn set to 0; not normalised again, and not copied if all may.

    What stays: of the top-k tokens the nucleus (top-p, arXiv:1904.09751), and of that what is at least min-p times as
    likely as the likeliest (arXiv:2407.01082).
    """
    if sampling.top_k or sampling.top_p < 1:
        prob_L_V = _likeliest(prob_L_V, sampling)
    if sampling.min_p:
        prob_L_V = prob_L_V * (prob_L_V >= sampling.min_p * prob_L_V.amax(dim=1, keepdim=True))
    return prob_L_V


def _likeliest(prob_L_V: Tensor, sampling: Sampling) -> Tensor:
    """Top-k and top-p from one sort. Tokens stay in the vocabulary's order, where ties do not decide who is drawn."""
    vocabulary = prob_L_V.shape[1]
    k = min(sampling.top_k or vocabulary, vocabulary)
    sorted_L_k, order_L_k = prob_L_V.topk(k, dim=1) if k < vocabulary else prob_L_V.sort(dim=1, descending=True)
    if sampling.top_p < 1:
        before_L_k = sorted_L_k.cumsum(dim=1) - sorted_L_k
        sorted_L_k = sorted_L_k * (before_L_k < sampling.top_p * sorted_L_k.sum(dim=1, keepdim=True))
    return torch.zeros_like(prob_L_V).scatter(1, order_L_k, sorted_L_k)
