"""Spells names and spans of time: what somebody may have meant, a list of names, an age."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MOST_COMPARED = 1_000
"""Names: those of a folder cost a stranger nothing, and each takes 0.1 ms."""
MOST_NAMED = 20
LONGEST_AGE = 100 * 365 * 86400.0
"""Seconds; what is older has a clock that nobody believes."""


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean 'this'?`, or what is to be said where nothing is like it."""
    import difflib  # here: nothing is misspelled as a rule

    close = difflib.get_close_matches(word, list(islice(known, MOST_COMPARED)), n=1)
    return f"; did you mean {close[0]!r}?" if close else otherwise


def named(known: Iterable[str], most: int = MOST_NAMED) -> str:
    """`a, b, c`, the first of many."""
    names = list(known)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def age(seconds: float) -> str:
    """Returns a span in the unit that suits it: 3.2s, 45s, 12m, 3.5h, 2.1d."""
    if seconds > LONGEST_AGE:
        return ">100y"
    for limit, unit, name in ((10.0, 1.0, "s"), (120.0, 1.0, "s"), (7200.0, 60.0, "m"), (172800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{1 if limit == 10.0 or name == 'h' else 0}f}{name}"
    return f"{seconds / 86400.0:.1f}d"
