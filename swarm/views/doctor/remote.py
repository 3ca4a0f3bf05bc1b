"""Places that are no plain folder: a bucket, what may be done there, what its server promises, and how fast it is; a
replicated folder, who is connected, what has not come, how late it comes, and that nobody writes for another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median

from swarm.config import Settings
from swarm.store.health import Latency, Permission, Visibility
from swarm.store.replication import Replication
from swarm.views.doctor.check import CheckContext, Finding, failure, graded, ok, warning
from swarm.views.doctor.place import judge_visibility
from swarm.views.text import shorten, size

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
    bucket = context.health.bucket
    if bucket is None:
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


MANY = 20
"""Members, from which on every machine's connection and disk carry too much of what the others wrote."""
SHARE_OF_TIMEOUT = 0.5
"""Share of the liveness timeout; a heartbeat that comes so late leaves little for one that is lost."""
SHOWN = 120


def check_replication(context: CheckContext) -> Iterator[Finding]:
    """Judges replication; nothing of a place that all see alike."""
    if context.replication is not None:
        yield from judge_replication(context.replication, context.settings.cadence.liveness_timeout)


def judge_replication(now: Replication, liveness_timeout: float) -> Iterator[Finding]:
    """Turns what Syncthing says into findings."""
    again = "start a node here, or run `swarm invite` or `swarm join --invitation` again: they set Syncthing right"
    for problem in now.problems:
        yield failure("Syncthing", problem, again)
    if not now.problems:
        yield ok("Syncthing", f"each subtree comes from its owner alone; this machine is {now.member}")
    yield from _connected(now)
    yield from _late(now, liveness_timeout)


def _connected(now: Replication) -> Iterator[Finding]:
    if not now.peers:
        return
    away = [peer.member for peer in now.peers if not peer.connected]
    measured = f"{len(now.peers) - len(away)} of {len(now.peers)} others"
    named = f"; away: {shorten(', '.join(away), SHOWN)}" if away else ""
    fix = "start Syncthing there; each pair of members connects directly: let them say an --address that can be reached"
    yield graded("connected", measured + named, fix, warns=bool(away))
    left = sum(peer.to_come for peer in now.peers)
    fix = "wait; where it stays, look at Syncthing's own page: a disk may be full"
    yield graded("here", f"{size(left)} of the others' to come", fix, warns=bool(left))
    if len(now.peers) >= MANY:
        fix = "take a bucket (docs/buckets.md): here every machine receives all that each of the others writes"
        yield warning("members", str(len(now.peers) + 1), fix)


def _late(now: Replication, liveness_timeout: float) -> Iterator[Finding]:
    late = {peer.member: peer.delay for peer in now.peers if peer.delay is not None}
    if late:
        worst = max(late.values())
        measured = ", ".join(f"{member} {seconds:.1f} s" for member, seconds in sorted(late.items()))
        fix = (
            f"set SWARM_LIVENESS_TIMEOUT above {2 * worst:.0f} on all nodes, or keep the clocks of the machines in time"
        )
        limit = SHARE_OF_TIMEOUT * liveness_timeout
        yield graded("heartbeats come late by", shorten(measured, SHOWN), fix, warns=worst > limit)
