"""Group-relative advantages (GRPO, arXiv:2402.03300, section 4.1.2) and what "informative" means in SAPO."""

from __future__ import annotations

import math
from collections.abc import Sequence

MIN_STD = 1e-4
"""Below this spread the rewards of a group are taken for equal: dividing by it would amplify rounding."""


def group_advantages(rewards: Sequence[float]) -> tuple[float, ...]:
    """(r - mean) / std over one group's G rewards, with the population's std; all zero where they do not differ.

    Raises:
        ValueError: no reward at all, or one that is not finite.
    """
    if not rewards or not all(map(math.isfinite, rewards)):
        raise ValueError(f"expected at least one reward, all finite, got {list(rewards)}")
    mean = math.fsum(rewards) / len(rewards)
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / len(rewards))
    if std < MIN_STD:
        return (0.0,) * len(rewards)
    return tuple((r - mean) / std for r in rewards)


def is_informative(rewards: Sequence[float]) -> bool:
    """True if any advantage is not zero; SAPO discards other external groups before it samples (section 4)."""
    return any(group_advantages(rewards))
