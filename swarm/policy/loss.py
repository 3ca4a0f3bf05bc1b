"""What is minimised: the GRPO objective, per completion token. Pure functions of tensors.

Sizes: M completion tokens. Everything here is fp32, whatever the model computed in.
"""

from __future__ import annotations

import torch
from torch import Tensor


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


def importance_weight(old_logprob_M: Tensor, behaviour_logprob_M: Tensor, cap: float) -> Tensor:
    """min(cap, policy / behaviour) [M] of each token, a constant; 1 where the behaviour is NaN, that is unknown.

    Truncated importance sampling: tokens are weighed by how likely the policy before the update is to write them,
    relative to what wrote them. "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", Yao et al.,
    2025, for the gap between generator and trainer; the truncation is that of IMPALA, arXiv:1802.01561, section 4.1.
    Both log-probs are of the whole distribution at the temperature, before any top-p, top-k or min-p.
    """
    ratio_M = (old_logprob_M.detach() - behaviour_logprob_M).exp()
    return ratio_M.clamp(max=cap).masked_fill(behaviour_logprob_M.isnan(), 1.0)
