"""Bytes as people read them."""

from __future__ import annotations


def size(number: float) -> str:
    """`12.3 GB`, `4.5 MB`, `0.8 kB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number / 1e3:.1f} kB"
