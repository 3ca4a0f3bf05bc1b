"""Raises how many files a process may have open at once, as far as is allowed, and refuses too few."""

from __future__ import annotations

import math
import sys

ENOUGH = 4096
"""Files of several nodes in one process."""
LEAST = 64
"""One node has some 20 open, and as many more for moments."""


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


def problem() -> str:
    """Returns why a node cannot run with this limit; empty if it can."""
    if limit() >= LEAST:
        return ""
    return (
        f"a node needs {LEAST} open files, this process may have {limit():.0f}: type `ulimit -n {ENOUGH}` before the "
        "start, or raise the hard limit (limits.conf, LimitNOFILE of systemd)"
    )
