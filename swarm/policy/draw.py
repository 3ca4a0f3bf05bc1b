"""Draws the next token of each row, with its log-prob.

    logits ─÷ temperature, log-softmax─▶ log-probs ─truncate─▶ weights ─invert their sum at u─▶ token, its log-prob

Log-probs are those at the temperature and before any truncation: what the trainer computes as well.
Sizes: L rows, V vocabulary, k tokens kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

_BLOCKS = (256, 128)
"""Tokens that are summed up together: the first number that divides the vocabulary, since padding copies it."""
_FEWEST_BLOCKS = 16


@dataclass(frozen=True)
class Sampling:
    """Says how tokens are drawn; see GrpoConfig for the meaning."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    @property
    def truncates(self) -> bool:
        """Tells whether some tokens may not be drawn."""
        return bool(self.top_k or self.min_p) or self.top_p < 1


def draw_tokens(logits_L_V: Tensor, uniform_L: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Sampled ids [L] by inverting the cumulative distribution at uniform_L, and their log-probs [L]."""
    if sampling.temperature != 1:
        logits_L_V = logits_L_V / sampling.temperature
    logprob_L_V = logits_L_V.log_softmax(dim=1)
    weight_L_V = truncate(logprob_L_V.exp(), sampling)
    token_L_1 = invert(weight_L_V, uniform_L[:, None], block_of(logits_L_V.shape[1]) if logits_L_V.is_cuda else None)
    return token_L_1.squeeze(1), logprob_L_V.gather(1, token_L_1).squeeze(1)


def block_of(vocabulary: int) -> int | None:
    """Returns how many tokens are summed up at a time on a GPU; None: the vocabulary is too small for it."""
    if vocabulary <= _FEWEST_BLOCKS * _BLOCKS[0]:
        return None
    return next((block for block in _BLOCKS if vocabulary % block == 0), _BLOCKS[0])


def invert(weight_L_V: Tensor, uniform_L_1: Tensor, block: int | None = None) -> Tensor:
    """Returns [L, 1]: the first token up to which the weights sum to more than the share uniform_L_1 of all of them.

    Args:
        block: sum up so many tokens at a time, and then those of the block that is met. A sum that grows token by token
            is one long chain for each row on a GPU; a CPU has nothing better to do.
    """
    rows, vocabulary = weight_L_V.shape
    if block is None:
        sum_L_V = weight_L_V.cumsum(dim=1, dtype=torch.float64)
        return _first_beyond(sum_L_V, uniform_L_1 * sum_L_V[:, -1:])
    if rest := -vocabulary % block:
        weight_L_V = pad(weight_L_V, (0, rest))
    weight_L_B_b = weight_L_V.view(rows, -1, block)
    sum_L_B = weight_L_B_b.sum(dim=2, dtype=torch.float64).cumsum(dim=1)
    point_L_1 = uniform_L_1 * sum_L_B[:, -1:]
    block_L_1 = _first_beyond(sum_L_B, point_L_1)
    before_L_1 = pad(sum_L_B, (1, 0)).gather(1, block_L_1)
    weight_L_b = weight_L_B_b.take_along_dim(block_L_1[:, :, None], dim=1).squeeze(1)
    place_L_1 = _first_beyond(weight_L_b.cumsum(dim=1, dtype=torch.float64), point_L_1 - before_L_1)
    return (block_L_1 * block + place_L_1).clamp(max=vocabulary - 1)


def _first_beyond(sum_L_n: Tensor, point_L_1: Tensor) -> Tensor:
    """Returns [L, 1]: the first place whose sum is above the point."""
    total_L_1 = sum_L_n[:, -1:]
    # Rounding could lift the point to the total itself, behind the last place that has any weight.
    below_total_L_1 = torch.nextafter(total_L_1, torch.zeros_like(total_L_1))
    place_L_1 = torch.searchsorted(sum_L_n, torch.minimum(point_L_1, below_total_L_1), right=True)
    return place_L_1.clamp(max=sum_L_n.shape[1] - 1)  # of NaN logits, which the caller finds by their log-prob


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
