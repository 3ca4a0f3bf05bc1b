"""Group-relative advantages of the G completions to one question, with the scaling chosen by name.

GRPO, arXiv:2402.03300, section 4.1.2. A scaling is a function of a group's rewards, called only where these differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

Scaling = Callable[[Sequence[float]], Sequence[float]]
"""G rewards, finite and not all equal -> G advantages."""

MIN_STD = 1e-4
"""Below this spread the rewards of a group are taken for equal: dividing by it would amplify rounding."""


def std(rewards: Sequence[float]) -> tuple[float, ...]:
    """(r - mean) / std with the population's standard deviation."""
    return _divided(rewards, _deviation(rewards, len(rewards)))


def std_sample(rewards: Sequence[float]) -> tuple[float, ...]:
    """(r - mean) / std with the sample's standard deviation, which divides by G - 1: what genrl and TRL do."""
    return _divided(rewards, _deviation(rewards, len(rewards) - 1))


def none(rewards: Sequence[float]) -> tuple[float, ...]:
    """r - mean. Dr. GRPO, arXiv:2503.20783, section 3.1: dividing by the spread favours questions that are nearly
    always or nearly never answered."""
    return _divided(rewards, 1.0)


def std_batch(rewards: Sequence[float]) -> tuple[float, ...]:
    """r - mean, which the trainer divides by the root mean square of all such differences of the update's groups, those
    without an advantage included (`batch_spread`). REINFORCE++-baseline, arXiv:2501.03262: the mean of the
    group, the standard deviation of the batch."""
    return none(rewards)


SCALINGS: Mapping[str, Scaling] = {"std": std, "none": none, "std_sample": std_sample, "std_batch": std_batch}
OVER_BATCH = "std_batch"
"""The scaling that is complete only when all groups of the update are known."""


def group_advantages(rewards: Sequence[float], scaling: Scaling = std) -> tuple[float, ...]:
    """Returns the advantages of one group; all zero where its rewards do not differ, whatever the scaling.

    Raises:
        ValueError: no reward at all, or one that is not finite; or the scaling gives no such numbers.
    """
    if not is_informative(rewards):
        return (0.0,) * len(rewards)
    advantages = tuple(scaling(rewards))
    if len(advantages) != len(rewards) or not all(map(math.isfinite, advantages)):
        raise ValueError(f"expected {len(rewards)} finite advantages for {list(rewards)}, got {list(advantages)}")
    return advantages


def batch_spread(squares: float, completions: int) -> float:
    """Returns the standard deviation of r - mean over a batch: each group's differences sum to 0, so their mean is 0.

    Args:
        squares: sum of the squared differences.
        completions: how many there are; 1.0 of none, and where all are 0.
    """
    return math.sqrt(squares / completions) if squares > 0 and completions else 1.0


def is_informative(rewards: Sequence[float]) -> bool:
    """Tells whether the rewards differ, so that there are advantages; SAPO discards other external groups (section
    3.2).

    Raises:
        ValueError: no reward at all, or one that is not finite.
    """
    if not rewards or not all(map(math.isfinite, rewards)):
        raise ValueError(f"expected at least one reward, all finite, got {list(rewards)}")
    return _deviation(rewards, len(rewards)) >= MIN_STD


def _deviation(rewards: Sequence[float], divisor: int) -> float:
    mean = _mean(rewards)
    return math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / divisor)


def _divided(rewards: Sequence[float], by: float) -> tuple[float, ...]:
    mean = _mean(rewards)
    return tuple((r - mean) / by for r in rewards)


def _mean(rewards: Sequence[float]) -> float:
    return math.fsum(rewards) / len(rewards)
