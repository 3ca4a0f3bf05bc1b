"""How often the intervals of a study's page hold the true value: 95 % of the time is what they say.

Samples of 3, 5 and 10 seeds are drawn from populations whose mean is known. Where runs have the spreads that those of
the studies had, alike and unlike, also a skewed one, they are to hold it 93 to 97 % of the time. `HARD` has populations
where they do not: every case outside stands in the result's `outside`. Beside them the percentile bootstrap of the
ratio.
"""

from __future__ import annotations

import json
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import arguments_of, keep
from swarm.plugins.study.analysis.effect_size import improvement, mean_effect

MEANS = (60.0, 25.0)
"""Cumulative rewards of a configuration and of its baseline, as in the study `sapo`."""
SPREADS = ((0.1, 0.1), (0.2, 0.4), (0.4, 0.2), (0.05, 0.4))
"""Standard deviations over means, of a configuration and of its baseline: from 0.04 to 0.33 in docs/study."""
DISTRIBUTIONS = ("normal", "gamma", "lognormal", "lognormal to the left")
"""From no skew to one of 1.3, to the right and to the left."""
HARD = (("lognormal", (1.0, 1.0)), ("one in five stays behind", (0.4, 0.4)))
"""Skewed by 4, and a mixture: runs that never take off, as single ones of a rare start may."""
SHARED = 0.2
"""Standard deviation over mean of the luck that both sides of a pair share."""
AIM = (0.93, 0.97)
SEEDS = (3, 5, 10)


class Coverage(NamedTuple):
    """Shares of the repetitions in which an interval held the true value."""

    mean: float
    """Of mean_effect."""
    improvement: float
    paired: float
    """Of the improvement by pairs, where each seed is good or bad luck for both sides."""
    bootstrap: float
    """Of the percentile bootstrap of the ratio of means; nan where it was not asked for."""


def coverage(
    distribution: str, *, seeds: int, spread: tuple[float, float], repetitions: int, resamples: int = 0
) -> Coverage:
    """Draw pairs of samples, and see which intervals hold the truth.

    Args:
        spread: standard deviation over mean, of either side.
        resamples: of the bootstrap beside; 0: none.
    """
    rng = np.random.default_rng(0)
    truth = 100 * (MEANS[0] / MEANS[1] - 1)
    held = np.zeros(4)
    for _ in range(repetitions):
        a, b = (_drawn(rng, distribution, mean, cv, seeds) for mean, cv in zip(MEANS, spread, strict=True))
        luck = _drawn(rng, distribution, 1.0, SHARED, seeds)
        mean, gain = mean_effect(a.tolist()), improvement(a.tolist(), b.tolist())
        pairs = improvement((a * luck).tolist(), (b * luck).tolist(), paired=True)
        held += [
            _holds(mean.low, MEANS[0], mean.high),
            _holds(gain.low, truth, gain.high),
            _holds(pairs.low, truth, pairs.high),
            resamples > 0 and _holds(*_bootstrapped(rng, a, b, resamples, truth)),
        ]
    mean_, apart, paired, bootstrap = (float(share) for share in held / repetitions)
    return Coverage(mean_, apart, paired, bootstrap if resamples else float("nan"))


def _drawn(rng: np.random.Generator, distribution: str, mean: float, cv: float, seeds: int) -> NDArray[np.float64]:
    if distribution == "normal":
        return mean * (1 + cv * rng.standard_normal(seeds))
    if distribution == "gamma":
        return rng.gamma(1 / cv**2, mean * cv**2, seeds)
    if distribution == "one in five stays behind":
        behind: NDArray[np.float64] = np.where(rng.random(seeds) < 0.2, -2.0, 0.5)
        return mean * (1 + cv * behind)
    sigma = np.sqrt(np.log(1 + cv**2))
    right: NDArray[np.float64] = mean * np.exp(sigma * rng.standard_normal(seeds) - sigma**2 / 2)
    return right if distribution == "lognormal" else 2 * mean - right


def _bootstrapped(
    rng: np.random.Generator, a: NDArray[np.float64], b: NDArray[np.float64], resamples: int, truth: float
) -> tuple[float, float, float]:
    means = [rng.choice(x, (resamples, len(x))).mean(axis=1) for x in (a, b)]
    low, high = np.quantile(100 * (means[0] / means[1] - 1), [0.025, 0.975])
    return float(low), truth, float(high)


def _holds(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--repetitions", type=int, default=5_000)
    arguments = parser.parse_args()
    repetitions = 200 if arguments.quick else arguments.repetitions
    rows = []
    for (distribution, spread), seeds in product([*product(DISTRIBUTIONS, SPREADS), *HARD], SEEDS):
        found = coverage(distribution, seeds=seeds, spread=spread, repetitions=repetitions, resamples=200)
        rows.append({"distribution": distribution, "spread": list(spread), "seeds": seeds, **found._asdict()})
        print(json.dumps(rows[-1]))
    outside = [
        row for row in rows if not all(AIM[0] <= row[name] <= AIM[1] for name in ("mean", "improvement", "paired"))
    ]
    keep("interval_coverage", {"repetitions": repetitions, "outside": outside, "coverage": rows}, arguments)


if __name__ == "__main__":
    main()
