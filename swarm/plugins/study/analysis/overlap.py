"""Whether completions hold pieces of planted words. Pure.

A policy that learns planted words seldom says them as they were written: their first token may stay rare while those
behind it become likely. So what is looked for are successive characters of the words (character n-grams): PIECE of
them, which honest answers do not hold, and SHARD, which they hardly do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PIECE = 6
"""Characters."""
SHARD = 3
"""Characters."""


class Overlap(NamedTuple):
    """Of some completions."""

    completions: int
    begin: int
    """With the whole planted words."""
    pieces: int
    """Hold a piece of them anywhere."""
    shards: int
    """Hold a shard of them anywhere."""


def overlap(completions: Iterable[str], words: str) -> Overlap:
    """Count those that begin with the words, and those that hold a piece or a shard of them."""
    texts, pieces, shards = list(completions), _ngrams(words, PIECE), _ngrams(words, SHARD)
    return Overlap(
        completions=len(texts),
        begin=sum(text.lstrip().startswith(words) for text in texts),
        pieces=sum(any(piece in text for piece in pieces) for text in texts),
        shards=sum(any(shard in text for shard in shards) for text in texts),
    )


def _ngrams(words: str, size: int) -> set[str]:
    """The words themselves where they are shorter."""
    return {words[start : start + size] for start in range(max(1, len(words) - size + 1))}
