"""Decides how long to wait before a request is repeated. Pure."""

from __future__ import annotations

from swarm.algo.seeds import derive_random

LONGEST_ASKED = 900.0
"""Most seconds that a server may ask for: it is a stranger."""


def backoff(first: float, longest: float, failures: int, seed: int, *purpose: str | int, asked: float | None) -> float:
    """Returns seconds before the next attempt: doubled with each failure, between half of that and all of it, and never
    less than the server asks for.

    Args:
        failures: so far, at least 1.
        purpose: tells the requests of one seed apart, so that they do not come back together.
        asked: by the server (`Retry-After`); None: it said nothing.
    """
    whole = min(longest, first * 2.0 ** min(failures - 1, 60))
    jittered = whole * (0.5 + 0.5 * derive_random(seed, "backoff", failures, *purpose).random())
    return max(jittered, min(asked or 0.0, LONGEST_ASKED))
