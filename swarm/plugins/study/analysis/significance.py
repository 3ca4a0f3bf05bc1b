"""Hypothesis tests of configurations: t-tests (Welch's, paired, against 0), analysis of variance, Holm's adjustment.

One value per run goes in: the seed is the unit.

With fewer than three runs on any side, or no spread on all sides, nothing is tested: every field is None.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

FEWEST_SEEDS = 3
"""With fewer on any side no p-value and no interval is computed."""
Sample = Sequence[float]
"""One finite value per run."""


class TTest(NamedTuple):
    """A t-test of two means, two-sided, and the 95 % interval of their difference from the same t."""

    t: float | None = None
    df: float | None = None
    """Degrees of freedom; Welch's and Satterthwaite's are no whole number."""
    p: float | None = None
    low: float | None = None
    high: float | None = None


def welch(a: Sample, b: Sample) -> TTest:
    """Test mean(a) against mean(b) without assuming equal variances (Welch, Biometrika 34, 1947)."""
    if _too_few(a, b) or _constant(a, b):
        return TTest()
    with _one_side_may_be_constant():
        return _two_sided(stats.ttest_ind(a, b, equal_var=False))


def paired(a: Sample, b: Sample) -> TTest:
    """Student's paired t-test; a[i] and b[i] come from the same seed, and so from the same questions."""
    return TTest() if _too_few(a, b) else zero(np.subtract(a, b).tolist())


def zero(a: Sample) -> TTest:
    """Student's t-test of mean(a) against 0."""
    if _too_few(a) or _constant(a):
        return TTest()
    return _two_sided(stats.ttest_1samp(a, 0.0))


def _two_sided(found: Any) -> TTest:
    interval = found.confidence_interval(0.95)
    return TTest(*(float(value) for value in (found.statistic, found.df, found.pvalue, interval.low, interval.high)))


class Anova(NamedTuple):
    """One-way analysis of variance: classic (Fisher, equal variances) and Welch's, which does without them."""

    f: float | None = None
    df_between: int | None = None
    df_within: int | None = None
    p: float | None = None
    welch_f: float | None = None
    welch_df_within: float | None = None
    welch_p: float | None = None


def anova(samples: Sequence[Sample]) -> Anova:
    """Do all these configurations have one mean? Welch's fields are None where some sample has no spread.

    Source: Welch, On the comparison of several mean values, Biometrika 38 (1951).
    """
    if len(samples) < 2 or _too_few(*samples) or _constant(*samples):
        return Anova()
    with _one_side_may_be_constant():
        classic = stats.f_oneway(*samples)
    df_between, df_within = len(samples) - 1, sum(map(len, samples)) - len(samples)
    f, p = _f_and_p(classic.statistic, df_between, df_within)
    result = Anova(f, df_between, df_within, p)
    if any(_constant(sample) for sample in samples):
        return result
    welch_df = _welch_df(samples)
    f, p = _f_and_p(stats.f_oneway(*samples, equal_var=False).statistic, df_between, welch_df)
    return result._replace(welch_f=f, welch_df_within=welch_df, welch_p=p)


def _f_and_p(f: float, df_between: float, df_within: float) -> tuple[float, float]:
    """F of equal means can round to below 0, of which scipy's own p is NaN."""
    f = max(0.0, float(f))
    return f, float(stats.f.sf(f, df_between, df_within))


def _welch_df(samples: Sequence[Sample]) -> float:
    """Denominator degrees of freedom of Welch's F."""
    weights = np.array([len(sample) / np.var(sample, ddof=1) for sample in samples])
    free = np.array([len(sample) - 1 for sample in samples])
    spread = np.sum((1 - weights / weights.sum()) ** 2 / free)
    return float((len(samples) ** 2 - 1) / (3 * spread))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of one family (Holm, Scandinavian Journal of Statistics 6, 1979).

    The k-th smallest of m is multiplied by m - k + 1, is at least the adjusted one before it, and at most 1. What was
    not tested (None) stays None and is no member of the family.
    """
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    scaled = (min(1.0, p * (len(tested) - rank)) for rank, (p, _) in enumerate(tested))
    adjusted: list[float | None] = [None] * len(p_values)
    for (_, place), p in zip(tested, accumulate(scaled, max), strict=True):
        adjusted[place] = p
    return adjusted


def _too_few(*samples: Sample) -> bool:
    return any(len(sample) < FEWEST_SEEDS for sample in samples)


def _constant(*samples: Sample) -> bool:
    """The spread inside the samples is nothing but rounding: means have no standard error to be held against."""
    rounding = 10 * math.ulp(1.0)
    return all(np.ptp(sample) <= rounding * np.max(np.abs(sample)) for sample in map(np.asarray, samples))


@contextmanager
def _one_side_may_be_constant() -> Iterator[None]:
    """One sample without spread is no mishap here; scipy warns of it even where the other one has some."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Precision loss occurred", RuntimeWarning)
        yield
