"""Finds where a completion first holds a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swarm.policy.prompt import decode_completion

_SLACK = 8
"""Tokens more than a stop string has bytes: the first ones of a window may decode to other characters."""


class StopStrings:
    """Looks for the end of completions at which some strings end them, which stay in the text."""

    def __init__(self, tokenizer: Any, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._window = max(len(text.encode()) for text in stop) + _SLACK

    def end(self, token_ids: Sequence[int], looked: int) -> int | None:
        """Returns how many of these tokens there are up to and with the first stop string; None where there is none.

        Args:
            looked: so many of them hold none.
        """
        start = max(0, looked - self._window)
        if not self._stops(token_ids[start:]):
            return None
        return next(n for n in range(looked + 1, len(token_ids) + 1) if self._stops(token_ids[start:n]))

    def _stops(self, token_ids: Sequence[int]) -> bool:
        text = decode_completion(self._tokenizer, list(token_ids))
        return any(stop in text for stop in self._stop)
