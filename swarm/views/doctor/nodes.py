"""Checks of the nodes: liveness, doubled ids, coordinators, rounds behind, clocks, hosts."""

from __future__ import annotations

from collections.abc import Iterator

from swarm.records.files import read_clock
from swarm.records.made_by import made_by
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.views.doctor.watching import Watch, WatchedNodes
from swarm.views.text import age
from swarm.wire.messages import StateFile

AREA = Area("nodes")
LAG_TOLERATED = 1
"""Rounds behind the clock: the round that opens while a node still trains is no lag."""
SKEW_TOLERATED = 5.0
"""Seconds, for the same reason as that of the file server (place.py)."""


def check_maker(context: CheckContext) -> Iterator[Finding]:
    """Warns that another program made the run: nodes refuse to start in it."""
    if context.run is not None and (maker := made_by(context.run)):
        fix = "choose another --experiment for a new run; this one is looked at and imported alone"
        yield Area("maker").warning("made by", f"{maker}: no node of this program starts here", fix)


def check(context: CheckContext) -> Iterator[Finding]:
    """Everything that watching the registrations shows."""
    if context.run is None:
        return
    watched, now = context.watched, context.timing.wall() + context.server_skew
    if not watched.nodes:
        yield AREA.ok("registered", "nobody has registered yet")
        return
    yield stale(watched, now, context.settings.cadence.liveness_timeout)
    yield duplicates(watched)
    yield coordinators(watched, read_clock(context.run).state, wanted=context.wants_coordinator)
    window = 0 if context.wants_coordinator else context.settings.staleness_window
    yield behind(watched, LAG_TOLERATED + window)
    yield clocks(watched)
    yield hosts(watched)


def stale(watched: WatchedNodes, now: float, timeout: float) -> Finding:
    """Nodes that are registered as running, and do nothing.

    Args:
        now: Unix seconds by the file server's clock, which dates the files.
        timeout: seconds after which the others take a silent node for dead.
    """
    silent = [n for n, w in sorted(watched.nodes.items()) if not w.moved and not w.said_goodbye]
    alive = [name for name, watch in watched.nodes.items() if watch.alive]
    gone = len(watched.nodes) - len(silent) - len(alive)
    figures = f"{len(alive)} alive, {gone} said goodbye, {len(silent)} silent for {watched.seconds:.1f} s"
    if not silent:
        return AREA.ok("alive", figures)
    named = ", ".join(f"{n} ({_last_sign(watched.nodes[n], now)})" for n in silent)
    dead = [name for name in silent if now - watched.nodes[name].file_time > timeout]
    if not dead:
        return AREA.warning("alive", f"{figures}: {named}", "look again with --seconds 20: they may only be slow")
    fix = "start them again under the same NODE_ID (they resume), or delete their peers/{node}.json"
    return AREA.warning("alive", f"{figures}: {named}", fix)


def _last_sign(watch: Watch, now: float) -> str:
    host = watch.peer.host.partition("/")[0] or "?"
    return f"pid {watch.peer.pid} on {host}, last sign {age(max(0.0, now - watch.file_time))} ago"


def duplicates(watched: WatchedNodes) -> Finding:
    """Node ids that two processes use at once."""
    doubled = {name: watch for name, watch in sorted(watched.nodes.items()) if watch.doubled}
    if not doubled:
        return AREA.ok("one process per id", f"no id was written by turns within {watched.seconds:.1f} s")
    named = ", ".join(f"{name} by {len(set(watch.incarnations))} processes" for name, watch in doubled.items())
    return AREA.failure(
        "one process per id", f"written by turns: {named}", "stop one of each, or give it its own NODE_ID"
    )


def coordinators(watched: WatchedNodes, state: StateFile | None, *, wanted: bool) -> Finding:
    """Exactly one where one is wanted and somebody waits for it; a standby takes over by itself."""
    there, workers = watched.alive("coordinator"), len(watched.alive("worker"))
    standing_by = sum(w.alive and w.stands_by for w in watched.nodes.values())
    figures = f"{len(there)} alive, {standing_by} on standby, {workers} workers"
    if len(there) > 1:
        fix = f"stop all but one of {', '.join(there)}; for a spare one, --standby"
        return AREA.failure("coordinator", figures, fix)
    if there or standing_by or not wanted or not workers or (state is not None and state.finished):
        return AREA.ok("coordinator", figures if wanted else f"{figures}; the experiment wants none")
    fix = "start one: swarm node --role coordinator; till then workers wait, and go on by themselves after a while"
    return AREA.failure("coordinator", f"{figures} without one", fix)


def behind(watched: WatchedNodes, tolerated: int) -> Finding:
    """Live workers that are several rounds back."""
    lags = {name: lag for name in watched.alive("worker") if (lag := watched.nodes[name].lag) is not None}
    late = {name: lag for name, lag in lags.items() if lag > tolerated}
    if not late:
        return AREA.ok("pace", f"{len(lags)} workers at work, none more than {tolerated} rounds behind")
    named = ", ".join(f"{name} {lag} rounds" for name, lag in late.items())
    fix = "raise COORDINATOR_ROUND_INTERVAL, or give these nodes less to do (their logs say where the time goes)"
    return AREA.warning("pace", f"behind: {named}", fix)


def clocks(watched: WatchedNodes) -> Finding:
    """Nodes whose clock is not this host's."""
    skews = {name: watch.skew for name, watch in sorted(watched.nodes.items()) if watch.skew is not None}
    off = {name: skew for name, skew in skews.items() if abs(skew) > SKEW_TOLERATED}
    if off:
        named = ", ".join(f"{name} {skew:+.1f} s" for name, skew in off.items())
        return AREA.warning(
            "clocks", named, "let those hosts keep time: timedatectl set-ntp true (ages shown are wrong)"
        )
    worst = max(map(abs, skews.values()), default=0.0)
    return AREA.ok("clocks", f"{len(skews)} seen beating, at most {worst:.2f} s off")


def hosts(watched: WatchedNodes) -> Finding:
    """Says where the live nodes run: a process id tells whether a node lives only within one machine and namespace."""
    places = {watch.peer.host for watch in watched.nodes.values() if watch.alive}
    if not places:
        return AREA.ok("hosts", "nobody is alive")
    machines = {place.rpartition("/")[0] for place in places}
    how = "by process id" if len(places) == 1 else "by heartbeat between them"
    return AREA.ok(
        "hosts", f"{len(machines)} machines, {len(places)} process namespaces; an id's holder is known {how}"
    )
