"""Raises how many files a process may have open at once, as far as is allowed."""

from __future__ import annotations

import math
import sys

ENOUGH = 4096
"""Files of several nodes in one process."""


def limit() -> float:
    """Returns how many files this process may have open now."""
    if sys.platform == "win32":  # it has no such limit
        return math.inf
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raises the limit to ENOUGH, or as far as the hard limit lets; never lowers it. What this process starts has the
    same."""
    if sys.platform == "win32" or limit() >= ENOUGH:
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if most > limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
