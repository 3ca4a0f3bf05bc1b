"""A mean of values from 0 to 1 with its 95 % interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import msgspec

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
