"""How long a test waits for what ought to happen, and which part of a sweep one run of all tests makes."""

from __future__ import annotations

from datetime import date

PATIENCE = 400.0
"""Seconds before a test gives up: against hanging alone, so that no machine is too slow for it."""


def part_of_today(parts: int) -> slice:
    """Returns which ones of a sweep are made today, of so many parts; each day another."""
    return slice(date.today().toordinal() % parts, None, parts)
