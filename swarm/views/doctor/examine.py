"""Runs all checks of the doctor on a shared place and one experiment in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from swarm.config import Settings
from swarm.errors import SwarmError
from swarm.harmless import printable
from swarm.records.made_by import as_ours
from swarm.store.place import Place, open_place
from swarm.views.doctor import machine, nodes, place, remote
from swarm.views.doctor.check import CheckContext, Diagnosis, Finding, Timing, Verdict, failure, ok

Check = Callable[[CheckContext], Iterator[Finding]]
CHECKS: dict[str, Check] = {
    "folder": place.check_writing,
    "visibility": place.check_visibility,
    "space": place.check_space,
    "bucket": remote.check_bucket,
    "events": place.check_events,
    "delay": place.check_delay,
    "nodes": nodes.check_nodes,
    "hints": nodes.check_hints,
    "versions": nodes.check_versions,
    "state": nodes.check_state,
    "files": place.check_files,
    "machine": machine.check_machine,
    "scoring": machine.check_scoring,
}
"""Every area, in the order in which it is reported."""
BEATS = 3.5
"""Heartbeat intervals that nodes are watched for, unless somebody says how long."""
BEATS_IN_A_BUCKET = 2.5
"""There a beat comes once a minute, or every second minute from a node that goes from round to round."""
SHORTEST = 4.0
"""Seconds."""
REAL_TIME = Timing(time.monotonic, time.time, time.sleep)


def examine(settings: Settings, *, seconds: float | None = None) -> Diagnosis:
    """Look at a shared place and one experiment in it, whether they are there yet or not.

    Args:
        seconds: how long nodes are watched; None: some of their heartbeats.
    """
    name, shared = settings.experiment, open_place(settings.place)
    beats = BEATS_IN_A_BUCKET if settings.sparing else BEATS
    watched_for = max(SHORTEST, beats * settings.cadence.heartbeat_interval) if seconds is None else seconds
    with shared.health(name) as health:
        run = as_ours(shared.open(name)) if health.there else None
        context = CheckContext(settings, run, health, watched_for, REAL_TIME)
        checks = CHECKS if health.there else {"experiment": lambda _: not_begun(shared, name)} | CHECKS
        findings = tuple(finding for area, check in checks.items() for finding in _look(area, check, context))
    ok = not any(finding.verdict is Verdict.FAILURE for finding in findings)
    return Diagnosis(name, printable(shared.describe()), ok, findings)


def not_begun(place: Place, name: str) -> Iterator[Finding]:
    """Says that nobody has begun the experiment, so that only the place is looked at."""
    yield ok("begun", f"not yet: {place.without(name)}")


def _look(area: str, check: Check, context: CheckContext) -> Iterator[Finding]:
    """Yields the findings of one area. A folder or file that cannot be looked at is a finding too, and no reason to
    leave out the others. Names of files and nodes are anybody's, so all text is made printable here."""
    found = list[Finding]()
    try:
        found.extend(check(context))
    except (OSError, SwarmError) as error:
        fix = "fix that first (permissions, mount, free space), then run swarm doctor again"
        found.append(failure("could be looked at", str(error), fix))
    for one in found:
        yield Finding(area, one.check, one.verdict, printable(one.measured), printable(one.fix))
