"""Look at everything, and leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Iterator

from swarm.config import Settings
from swarm.errors import SwarmError
from swarm.views.doctor.check_context import CheckContext, Timing
from swarm.views.doctor.finding import Area, Diagnosis, Finding, Verdict
from swarm.views.doctor.probe import probe_folder
from swarm.views.doctor.registry import CHECKS, Check
from swarm.views.text import printable
from swarm.wire.layout import Layout

BEATS = 3.5
"""Heartbeat intervals that nodes are watched for, unless somebody says how long."""
SHORTEST = 4.0
"""Seconds."""
REAL_TIME = Timing(time.monotonic, time.time, time.sleep)


def examine(settings: Settings, *, seconds: float | None = None, timing: Timing = REAL_TIME) -> Diagnosis:
    """Look at a shared folder and one experiment in it, whether they are there yet or not.

    Args:
        seconds: how long nodes are watched; None: some of their heartbeats.
    """
    layout = Layout(settings.shared_folder, settings.experiment)
    watched_for = max(SHORTEST, BEATS * settings.heartbeat_interval) if seconds is None else seconds
    with probe_folder(layout) as (probe, problem):
        context = CheckContext(settings, layout, watched_for, timing, probe, problem)
        findings = tuple(finding for name, check in CHECKS.items() for finding in _look(name, check, context))
    ok = not any(finding.verdict is Verdict.FAILURE for finding in findings)
    return Diagnosis(layout.experiment, printable(str(layout.path)), ok, findings)


def _look(name: str, check: Check, context: CheckContext) -> Iterator[Finding]:
    """One area. A folder or file that cannot be looked at is a finding too, and no reason to leave out the others."""
    try:
        yield from check(context)
    except (OSError, SwarmError) as error:
        fix = "fix that first (permissions, mount, free space), then run swarm doctor again"
        yield Area(name).failure("could be looked at", str(error), fix)
