"""A replicated folder: who is connected, what has not come, how late it comes, and that nobody writes for another."""

from __future__ import annotations

from collections.abc import Iterator

from swarm.store.replication import Replication
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.views.text import shorten, size

REPLICATION = Area("replication")
MANY = 20
"""Members, from which on every machine's connection and disk carry too much of what the others wrote."""
SHARE_OF_TIMEOUT = 0.5
"""Share of the liveness timeout; a heartbeat that comes so late leaves little for one that is lost."""
SHOWN = 120


def check(context: CheckContext) -> Iterator[Finding]:
    """Judges replication; nothing of a place that all see alike."""
    if context.replication is not None:
        yield from judge(context.replication, context.settings.cadence.liveness_timeout)


def judge(now: Replication, liveness_timeout: float) -> Iterator[Finding]:
    """Turns what Syncthing says into findings."""
    again = "start a node here, or run `swarm invite` or `swarm join --invitation` again: they set Syncthing right"
    for problem in now.problems:
        yield REPLICATION.failure("Syncthing", problem, again)
    if not now.problems:
        yield REPLICATION.ok("Syncthing", f"each subtree comes from its owner alone; this machine is {now.member}")
    yield from _connected(now)
    yield from _late(now, liveness_timeout)


def _connected(now: Replication) -> Iterator[Finding]:
    if not now.peers:
        return
    away = [peer.member for peer in now.peers if not peer.connected]
    measured = f"{len(now.peers) - len(away)} of {len(now.peers)} others"
    named = f"; away: {shorten(', '.join(away), SHOWN)}" if away else ""
    fix = "start Syncthing there; each pair of members connects directly: let them say an --address that can be reached"
    yield REPLICATION.graded("connected", measured + named, fix, warning=bool(away))
    left = sum(peer.to_come for peer in now.peers)
    fix = "wait; where it stays, look at Syncthing's own page: a disk may be full"
    yield REPLICATION.graded("here", f"{size(left)} of the others' to come", fix, warning=bool(left))
    if len(now.peers) >= MANY:
        fix = "take a bucket (docs/buckets.md): here every machine receives all that each of the others writes"
        yield REPLICATION.warning("members", str(len(now.peers) + 1), fix)


def _late(now: Replication, liveness_timeout: float) -> Iterator[Finding]:
    late = {peer.member: peer.delay for peer in now.peers if peer.delay is not None}
    if late:
        worst = max(late.values())
        measured = ", ".join(f"{member} {seconds:.1f} s" for member, seconds in sorted(late.items()))
        fix = (
            f"set SWARM_LIVENESS_TIMEOUT above {2 * worst:.0f} on all nodes, or keep the clocks of the machines in time"
        )
        limit = SHARE_OF_TIMEOUT * liveness_timeout
        yield REPLICATION.graded("heartbeats come late by", shorten(measured, SHOWN), fix, warning=worst > limit)
