"""A bucket: what may be done there, what its server promises, and how fast it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median

from swarm.config import Settings
from swarm.store.health import BucketHealth, Latency, Permission, Visibility
from swarm.views.doctor.check import CheckContext, Finding, failure, graded, ok
from swarm.views.doctor.place import judge_visibility

SLOW = 1.0
"""Seconds of one request, from which a round of a minute shows it."""
SHARE_OF_ROUND = 0.25
"""Share of the round interval that handing over may take."""
WRITES = 4
"""Writes of a node and round, one after the other."""
BEATS_MISSED = 3
"""Beats of a living node: one that is late, one that is left out, and one that failed and is tried again."""


def check_bucket(context: CheckContext) -> Iterator[Finding]:
    """All of it; where something may not be done, what stands in its way alone."""
    bucket = context.health
    if not isinstance(bucket, BucketHealth):
        return
    yield from judge_permissions(bucket.permissions)
    if context.health.problem:
        return
    yield judge_creating(bucket.creates_once())
    visibility, latency = bucket.visibility(), bucket.latency()
    yield from judge_visibility(visibility)
    yield judge_latency(latency)
    yield from judge_deadlines(latency, visibility, context.settings)


def judge_permissions(tried: Sequence[Permission]) -> Iterator[Finding]:
    """One finding for what may be done, one for each thing that may not."""
    if allowed := [permission.name for permission in tried if not permission.problem]:
        yield ok("permissions", ", ".join(allowed))
    for permission in tried:
        if permission.problem:
            fix = f"let these credentials {permission.name} objects there; nodes need list, put, get and delete"
            yield failure(f"may {permission.name}", permission.problem, fix)


def judge_creating(once: bool) -> Finding:
    """Judges whether the server keeps two nodes of one name apart."""
    measured = f"who creates an object that is there {'is refused' if once else 'is told that it was first'}"
    fix = (
        "use a server that obeys If-None-Match: of two who write one name at the same moment, here one is lost and "
        "neither is told. Until then nodes look before they create: start each NODE_ID once, and one node alone first"
    )
    return graded("exclusive creation", measured, fix, fails=not once)


def judge_latency(found: Latency) -> Finding:
    """Medians and the slowest, which of so few is the 99th percentile."""
    parts = (("put", found.put), ("get", found.get), ("list", found.list))
    times = ", ".join(f"{name} {median(took) * 1e3:.0f}/{max(took) * 1e3:.0f} ms" for name, took in parts)
    measured = f"{times} (p50/p99 of {len(found.put)} each, 60 kB)"
    fix = "choose a region near the nodes; expect slow rounds"
    slowest = max(median(took) for _, took in parts)
    return graded("latency", measured, fix, warns=slowest > SLOW)


def judge_deadlines(latency: Latency, visibility: Visibility, settings: Settings) -> Iterator[Finding]:
    """Judges the settings of rounds and liveness by what the bucket's delays need."""
    put, get, seen = max(latency.put), max(latency.get), max(chain(visibility.read, visibility.listed))
    look = settings.cadence.reconcile_interval + max(latency.list)
    handed_over = WRITES * put + seen + look + 2 * settings.most_external_groups * get
    least = handed_over / SHARE_OF_ROUND
    interval = settings.round_interval
    measured = f"writing, waiting and reading take up to {handed_over:.1f} s of a round; it may last {interval:g} s"
    fix = f"COORDINATOR_ROUND_INTERVAL={math.ceil(least) if math.isfinite(least) else 3600} or more"
    yield graded("round interval", measured, fix, fails=interval < handed_over, warns=interval < least)
    beats = BEATS_MISSED * settings.cadence.heartbeat_interval + put + seen + look + get
    timeout = settings.cadence.liveness_timeout
    measured = f"a living node may seem silent for {beats:.0f} s; it is taken for dead after {timeout:g} s"
    fix = f"SWARM_LIVENESS_TIMEOUT={math.ceil(beats) if math.isfinite(beats) else 3600} or more"
    yield graded("liveness", measured, fix, warns=timeout < beats)
