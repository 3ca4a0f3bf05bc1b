"""Whether completions hold pieces of planted words. Pure.

A policy that learns planted words seldom says them as they were written: their first token may stay rare while those
behind it become likely. So what is looked for is any PIECE successive characters of the words (a character n-gram).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PIECE = 6
"""Characters."""


class Overlap(NamedTuple):
    """Of some completions."""

    completions: int
    begin: int
    """With the whole planted words."""
    overlap: int
    """Share a piece with them."""


def overlap(completions: Iterable[str], words: str) -> Overlap:
    """Count those that begin with the words, and those that hold a piece of them; words that are shorter are one."""
    pieces = {words[start : start + PIECE] for start in range(max(1, len(words) - PIECE + 1))}
    found = [(text.lstrip().startswith(words), any(piece in text for piece in pieces)) for text in completions]
    return Overlap(len(found), sum(begins for begins, _ in found), sum(holds for _, holds in found))
