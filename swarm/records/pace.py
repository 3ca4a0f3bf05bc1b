"""Computes how fast a run goes, and how rewards spread: pure functions of its rows' sums."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

import msgspec

from swarm.spelling import age
from swarm.wire.messages import MetricsRow

if TYPE_CHECKING:
    from swarm.records.hints import Recent

LAST = 20
"""Rows of a node that its pace is taken of."""

STEPS_KEPT = 64
"""Rows that say how long a step takes."""


class Spread(msgspec.Struct, frozen=True):
    """Sums up how some rewards spread."""

    count: int
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


class StepPace:
    """Measures how long lately took what a node that is asked to stop finishes first."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=STEPS_KEPT)

    def observe(self, row: MetricsRow) -> None:
        """A round is over: its own groups, or its update, took longer."""
        self._recent.append(max(row.seconds_generate + row.seconds_score, row.seconds_lease + row.seconds_train))

    def __str__(self) -> str:
        if not self._recent:
            return "no round has shown yet how long a step takes"
        return f"lately a step took {age(max(self._recent))} at most"


def seconds_per_round(rows: Iterable[Recent]) -> float | None:
    """Median time from the end of one round of a node to the end of its next one; None for fewer than two rows.

    A pause, as of a node that was stopped and went on, is one of many and moves no median.
    """
    last = list(rows)[-LAST:]
    later = [(a, b) for a, b in pairwise(last) if b.round > a.round and b.timestamp >= a.timestamp]
    return median((b.timestamp - a.timestamp) / (b.round - a.round) for a, b in later) if later else None


def tokens_per_second(rows: Iterable[Recent]) -> float | None:
    """Returns tokens that a node sampled in the time of its last rounds; None for fewer than two rows."""
    last = list(rows)[-LAST:]
    took = last[-1].timestamp - last[0].timestamp if last else 0.0
    return sum(row.tokens_generated for row in last[1:]) / took if took > 0 else None


def spread(rewards: Sequence[float]) -> Spread | None:
    """Returns the five numbers; None for fewer than two rewards."""
    if len(rewards) < 2:
        return None
    lower, middle, upper = quantiles(rewards, n=4, method="inclusive")
    return Spread(len(rewards), min(rewards), lower, middle, upper, max(rewards))


_Z = 1.959964
"""Quantile of a 95 % interval."""


class Share(msgspec.Struct, frozen=True):
    """A mean of values from 0 to 1, one of each question, and its 95 % interval."""

    mean: float
    low: float
    high: float


def wilson(values: Sequence[float]) -> Share:
    """wilson_of the mean of these values."""
    return wilson_of(fmean(values), len(values))


def wilson_of(mean: float, questions: int) -> Share:
    """Wilson's interval for as many draws as there are questions.

    A question's value may be a mean over its completions, which are not independent of each other; of values from 0 to
    1 none vary more than those that are 0 or 1, so the interval is, if anything, too wide.
    """
    n = questions
    centre = (mean + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(max(0.0, mean * (1 - mean)) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return Share(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))
