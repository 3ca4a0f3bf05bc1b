"""Divides the N slots of a round: I own groups and J external ones."""

from __future__ import annotations

from random import Random
from typing import NamedTuple


class Split(NamedTuple):
    """One round's I and J."""

    local: int
    """I, at least 1."""
    external: int
    """J, at least 0."""
    continuous: float
    """What J was rounded from."""


def rounded_split(total: int, wanted: float, rng: Random) -> Split:
    """I + J = total, with J rounded up as often as its fraction says, so that 3.6 is 3.6 in the mean.

    Args:
        total: N, at least 1.
        wanted: J before rounding; cut off to [0, N - 1], so that a node always asks itself something.
    """
    continuous = min(max(wanted, 0.0), total - 1.0)
    whole = int(continuous)
    external = whole + (rng.random() < continuous - whole)
    return Split(total - external, external, continuous)
