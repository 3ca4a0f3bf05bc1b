"""Log-probs of chosen tokens for a head of any kind; more tokens than fit pass it in chunks.

Sizes: M completion tokens, D hidden size, V vocabulary; m tokens of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_MAX_LOGITS = 2**24
"""Logits held at once, 64 MB of fp32."""


def chosen_logprobs(
    hidden_M_D: Tensor,
    chosen_M: Tensor,
    *,
    head: Callable[[Tensor], Tensor],
    vocabulary: int,
    temperature: float,
    max_logits: int = _MAX_LOGITS,
) -> Tensor:
    """fp32 log-prob [M] of each chosen token under softmax(head(hidden) / temperature).

    Above max_logits, the backward pass computes each chunk's logits again, so that neither pass ever holds [M, V].
    A plain matrix does better: see linear_logprobs.
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
