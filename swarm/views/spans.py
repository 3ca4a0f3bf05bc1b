"""Numbers of rounds in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set


def spans(numbers: set[int]) -> str:
    """`rounds 1, 3-5, 9`."""
    runs = itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    parts = [[number for _, number in pairs] for _, pairs in runs]
    return named([range(part[0], part[-1] + 1) for part in parts])


def gaps(end: int, there: Set[int]) -> list[range]:
    """Returns the numbers from 0 to below `end` that are not there, a few ranges even where a stranger's clock says
    2^53."""
    edges = [-1, *sorted(number for number in there if 0 <= number < end), end]
    return [range(before + 1, after) for before, after in itertools.pairwise(edges) if after - before > 1]


def named(parts: Sequence[range]) -> str:
    """Ranges of rounds in words, as in `spans`."""
    words = [f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    count = sum(map(len, parts))
    shown = words if len(words) <= 12 else [*words[:12], f"... {count} in all"]
    return f"round{'s' if count > 1 else ''} {', '.join(shown)}"
