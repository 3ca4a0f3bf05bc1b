"""Estimates how far peers' groups pull away from what a node's own groups ask for, from the gradients of one update.

    sums of the gradients of 4 sets of groups ─inner products─▶ GradientProducts ─estimated─▶ GradientEstimate

**What is estimated.** A group with an advantage has a gradient, summed over its tokens: x_i of an own group with mean
g and variance s = E|x_i - g|^2, y_j of an external one with mean h. They are independent, for each group has a
question of its own. Own groups are held as two sets, n_a groups with sum A and n_b with sum B, external ones as two
others, n_e with E and n_f with F. A product of two independent sums has the product of their means as its
expectation, so

    E[A.B] / (n_a n_b)                                     = g.g         square
    E|A / n_a - B / n_b|^2 / (1 / n_a + 1 / n_b)           = s           noise
    E[(A + B).(E + F)] / ((n_a + n_b) (n_e + n_f))         = g.h         alignment
    E[E.F] / (n_e n_f)                                     = h.h
    h.h - 2 alignment + square                             = |h - g|^2   bias

The left-hand sides without the expectation are unbiased estimates; none squares a sum with itself, whose noise would
count as signal, but for that of the noise. So `square` and `bias` of a single update may be negative, and only means
over updates say something. The mean of M groups of which a share E / M is external misses g by s / M in variance and by
|h - g|^2 (E / M)^2 in bias: bias / noise is what swarm.algo.supply_rule needs.

What h is the mean over: the peers that were drawn, weighed by their groups. That groups are drawn without repetition
from a finite pool makes them dependent only through what their peers' policies have in common, which is in h.
"""

from __future__ import annotations

from typing import NamedTuple

from swarm.types import GradientEstimate


class GradientProducts(NamedTuple):
    """Numbers of groups, and inner products of the sums of their gradients: own A and B, external E and F."""

    own: tuple[int, int]
    """n_a, n_b."""
    external: tuple[int, int]
    """n_e, n_f."""
    first: float = 0.0
    """A.A; 0, like all others, where one of the sets is empty."""
    between: float = 0.0
    """A.B."""
    second: float = 0.0
    """B.B."""
    across: float = 0.0
    """(A + B).(E + F)."""
    outside: float = 0.0
    """E.F."""


def halves(groups: int) -> tuple[int, int]:
    """Sizes of the two sets that so many groups are parted into, the first one no smaller."""
    return groups - groups // 2, groups // 2


def estimated(products: GradientProducts) -> GradientEstimate:
    """Returns the estimates of the module's docstring; None of what there are too few groups for."""
    (n_a, n_b), (n_e, n_f) = products.own, products.external
    square = noise = alignment = bias = None
    if n_a and n_b:
        square = products.between / (n_a * n_b)
        apart = products.first / n_a**2 - 2 * square + products.second / n_b**2
        noise = apart / (1 / n_a + 1 / n_b)
    if (n_a + n_b) * (n_e + n_f):
        alignment = products.across / ((n_a + n_b) * (n_e + n_f))
    if square is not None and alignment is not None and n_e and n_f:
        bias = products.outside / (n_e * n_f) - 2 * alignment + square
    return GradientEstimate(square, noise, alignment, bias)
