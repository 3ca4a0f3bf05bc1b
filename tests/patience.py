"""How long a test waits for what ought to happen, and which part of a sweep one run of all tests makes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

PATIENCE = 400.0
"""Seconds before a test gives up: against hanging alone, so that no machine is too slow for it."""


def part_of_today(parts: int) -> slice:
    """Returns which ones of a sweep are made today, of so many parts; each day another."""
    return slice(date.today().toordinal() % parts, None, parts)


def part_a_day(sweep: Sequence[object], parts: int) -> list[Any]:
    """Returns a sweep for `parametrize`: CI makes one of so many parts a day, `make test-slow` the others."""
    today = range(len(sweep))[part_of_today(parts)]
    return [one if n in today else pytest.param(one, marks=pytest.mark.slow) for n, one in enumerate(sweep)]
