"""Guesses what somebody may have meant by a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MOST_COMPARED = 1_000
"""Names: those of a folder cost a stranger nothing, and each takes 0.1 ms."""
MOST_NAMED = 20


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
