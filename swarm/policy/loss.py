"""What is minimised: the GRPO objective, per completion token. Pure functions of tensors.

Sizes: M completion tokens, D hidden size, V vocabulary. Everything here is fp32, whatever the model computed in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_LOGITS = 2**24
"""Logits held at once, 64 MB of fp32: more tokens go through the head in several chunks."""


def chosen_logprobs(
    hidden_M_D: Tensor,
    chosen_M: Tensor,
    *,
    head: Callable[[Tensor], Tensor],
    vocabulary: int,
    temperature: float,
    max_logits: int = MAX_LOGITS,
) -> Tensor:
    """Log-prob [M] of each chosen token under softmax(head(hidden) / temperature).

    Above max_logits, tokens pass the head in chunks whose logits the backward pass computes again, so that neither
    pass ever holds [M, V]: at V = 151,936 this is most of a training step's memory.
    """

    def of_chunk(hidden_m_D: Tensor, chosen_m: Tensor) -> Tensor:
        logits_m_V = head(hidden_m_D).float() / temperature
        chosen_logit_m = logits_m_V.gather(1, chosen_m[:, None]).squeeze(1)
        return chosen_logit_m - logits_m_V.logsumexp(dim=1)

    rows = max(1, max_logits // vocabulary)
    if len(chosen_M) <= rows:
        return of_chunk(hidden_M_D, chosen_M)
    chunks = zip(torch.split(hidden_M_D, rows), torch.split(chosen_M, rows), strict=True)
    return torch.cat([checkpoint(of_chunk, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks])


def clipped_surrogate(
    logprob_M: Tensor, old_logprob_M: Tensor, advantage_M: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """Negated clipped surrogate [M]: -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), r = exp(logprob - old).

    GRPO, arXiv:2402.03300, equation 3, with the asymmetric range of DAPO, arXiv:2503.14476, equation 10, as in
    SAPO, arXiv:2509.08721, section 5.
    """
    ratio_M = (logprob_M - old_logprob_M).exp()
    clipped_M = ratio_M.clamp(1 - clip_low, 1 + clip_high)
    return -torch.minimum(ratio_M * advantage_M, clipped_M * advantage_M)


def clipped_tokens(
    logprob_M: Tensor, old_logprob_M: Tensor, advantage_M: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """bool [M]: the clip took this token's gradient away."""
    ratio_M = (logprob_M - old_logprob_M).exp()
    return ((ratio_M > 1 + clip_high) & (advantage_M > 0)) | ((ratio_M < 1 - clip_low) & (advantage_M < 0))


def kl_estimate(logprob_M: Tensor, reference_logprob_M: Tensor) -> Tensor:
    """The "k3" estimate [M] of KL(policy || reference): q/p - log(q/p) - 1 >= 0. GRPO, arXiv:2402.03300, equation 4."""
    log_ratio_M = reference_logprob_M - logprob_M
    return log_ratio_M.expm1() - log_ratio_M
