"""Effect sizes between configurations: Hedges' g, improvement in percent, bootstrap intervals. The unit is the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from swarm.study.analysis.significance import FEWEST_SEEDS, Sample

RESAMPLES = 9999
"""Bootstrap draws: scipy's own choice."""
Draws = NDArray[np.float64]
_LARGEST_T = 1000.0
"""scipy's noncentral t loses its digits beyond."""


class Effect(NamedTuple):
    """A size and its 95 % interval; None where it is not defined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def hedges_g(a: Sample, b: Sample) -> Effect:
    """Difference of the means in units of the pooled standard deviation, freed of its small-sample bias.

    g = J(m) (mean a - mean b) / s_pooled, with m = n_a + n_b - 2 degrees of freedom (Hedges, Journal of Educational
    Statistics 6, 1981) and the exact J of `small_sample_factor`. The interval inverts the noncentral t distribution,
    which is exact for normal samples of equal variance (Steiger and Fouladi 1997).
    """
    m = len(a) + len(b) - 2
    if min(len(a), len(b)) < 2 or m < 2:
        return Effect()
    pooled = math.sqrt(((len(a) - 1) * np.var(a, ddof=1) + (len(b) - 1) * np.var(b, ddof=1)) / m)
    difference = float(np.mean(a) - np.mean(b))
    if pooled <= 10 * math.ulp(1.0) * max(map(abs, (*a, *b))):
        return Effect()
    g = small_sample_factor(m) * difference / pooled
    if min(len(a), len(b)) < FEWEST_SEEDS:
        return Effect(g)
    scale = math.sqrt(1 / len(a) + 1 / len(b))
    low, high = _noncentrality(difference / (pooled * scale), m)
    return Effect(g, low and low * scale, high and high * scale)


def small_sample_factor(m: int) -> float:
    """J(m) = Gamma(m/2) / (sqrt(m/2) Gamma((m-1)/2)) for m >= 2 degrees of freedom; about 1 - 3 / (4 m - 1)."""
    return math.exp(math.lgamma(m / 2) - math.lgamma((m - 1) / 2)) / math.sqrt(m / 2)


def _noncentrality(t: float, df: int) -> tuple[float, float] | tuple[None, None]:
    """The noncentralities under which t is the 97.5th and the 2.5th percentile."""
    if abs(t) > _LARGEST_T:
        return None, None

    def shift_of(share: float) -> float:
        return float(brentq(lambda shift: stats.nct.cdf(abs(t), df, shift) - share, -5, 10 + 2 * abs(t)))

    low, high = shift_of(0.975), shift_of(0.025)
    return (low, high) if t >= 0 else (-high, -low)


def mean_effect(sample: Sample) -> Effect:
    """Mean over the runs, with its bootstrap interval."""
    return _bootstrap(_mean, sample) if len(sample) else Effect()


def improvement(a: Sample, baseline: Sample) -> Effect:
    """By how many percent mean(a) lies above mean(baseline), with the bootstrap interval of that ratio of means.

    None where the baseline's mean is not positive; no interval where a resampled one may not be.
    """
    if not len(a) or not len(baseline) or np.mean(baseline) <= 0:
        return Effect()
    if min(baseline) <= 0:
        return Effect(float(_percent_above(np.asarray(a), np.asarray(baseline))))
    return _bootstrap(_percent_above, a, baseline)


def _mean(draws: Draws, axis: int = -1) -> Draws:
    return np.asarray(np.mean(draws, axis=axis), dtype=np.float64)


def _percent_above(draws: Draws, baseline: Draws, axis: int = -1) -> Draws:
    return 100 * (_mean(draws, axis) / _mean(baseline, axis) - 1)


def _bootstrap(statistic: Callable[..., Draws], *samples: Sample) -> Effect:
    """Percentile interval, each sample resampled by itself (Efron and Tibshirani 1993, chapters 8 and 13).

    It always lies between what the data themselves reach, and needs no spread; with as few seeds as studies have it is
    somewhat too narrow: a summary, while Welch's interval is the one to decide by.
    """
    value = float(statistic(*map(np.asarray, samples)))
    if min(map(len, samples)) < FEWEST_SEEDS:
        return Effect(value)
    found = stats.bootstrap(
        samples, statistic, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=np.random.default_rng(0)
    )
    return Effect(value, float(found.confidence_interval.low), float(found.confidence_interval.high))
