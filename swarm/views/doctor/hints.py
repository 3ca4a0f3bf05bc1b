"""Events of the file system, by which nodes look sooner than they would: whether they come, and inotify's limits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from statistics import median

from swarm.store.health import Delivery, FileSystem, Inotify
from swarm.views.doctor.context import CheckContext
from swarm.views.doctor.finding import Area, Finding

EVENTS, INOTIFY = Area("events"), Area("inotify")
SLOW = 0.5
"""Seconds; nodes list the folder every other second in any case."""
WATCHES_PER_ROUND = 2
"""Each worker watches rollouts/ with everything below: round_R and stage_0 in it; a coordinator watches rewards/ so."""
BURST = 16
"""Events per node and round that may wait in one queue."""


def check_events(context: CheckContext) -> Iterator[Finding]:
    """Events of this host as measured; those of other hosts by the kind of file system."""
    interval = context.settings.reconcile_interval
    yield judge_filesystem(context.health.file_system(), interval)
    if context.settings.watch == "off":
        yield EVENTS.ok("delivery", f"SWARM_WATCH=off: nodes list every {interval:g} s")
    elif not context.health.problem:
        yield judge_delivery(context.health.delivery(), interval)


def judge_filesystem(filesystem: FileSystem, interval: float) -> Finding:
    """Whether other hosts' events can arrive at all."""
    where = f"{filesystem.kind} at {filesystem.mount}" if filesystem.mount else filesystem.kind
    if filesystem.delivers_events:
        return EVENTS.ok("file system", f"{where}: events arrive for all that this host writes")
    measured = f"{where}: no events for what other hosts write; nodes find it by listing, every {interval:g} s"
    return EVENTS.warning("file system", measured, "nothing breaks; for quicker rounds lower SWARM_RECONCILE_INTERVAL")


def judge_delivery(delivery: Delivery, interval: float) -> Finding:
    """The times as a finding."""
    listing = f"nodes find everything by listing, every {interval:g} s"
    if delivery.problem:
        fix = "raise the inotify limits (below), or set SWARM_WATCH=off to do without events"
        return EVENTS.warning("delivery", f"cannot watch: {delivery.problem}; {listing}", fix)
    tried = len(delivery.own) + len(delivery.others) + delivery.lost
    if delivery.lost:
        fix = "nothing breaks; set SWARM_WATCH=off and lower SWARM_RECONCILE_INTERVAL where rounds are short"
        return EVENTS.warning("delivery", f"{delivery.lost} of {tried} renames woke nobody; {listing}", fix)
    took = median(delivery.own)
    measured = f"{took * 1e3:.0f} ms from rename to wake-up, {delivery.others[0] * 1e3:.0f} ms from another process"
    if took > SLOW:
        return EVENTS.warning("delivery", measured, f"take load off this host; {listing} in any case")
    return EVENTS.ok("delivery", measured)


def check_inotify(context: CheckContext) -> Iterator[Finding]:
    """Limits against use and need; running out while running is silent."""
    yield from judge_inotify(context.health.inotify(), nodes_here(context), context.settings.max_rounds)


def nodes_here(context: CheckContext) -> int:
    """Nodes that run on this host, or will: those alive, at least the workers expected and a coordinator."""
    here = socket.gethostname()
    of_nodes = context.watched.nodes.values()
    alive = sum(watch.alive and watch.peer.host.partition("/")[0] == here for watch in of_nodes)
    return max(alive, context.settings.expected_workers + 1)


def judge_inotify(found: Inotify, nodes: int, rounds: int) -> Iterator[Finding]:
    """The figures as findings."""
    if found.watches is None or found.instances is None:
        yield INOTIFY.ok("limits", "this system has none, or does not tell")
        return
    unseen = f", {found.unseen} processes not readable" if found.unseen else ""
    need = nodes * (rounds * WATCHES_PER_ROUND + 4)
    measured = f"{found.watches_used} of {found.watches} used{unseen}; {nodes} nodes x {rounds} rounds need {need}"
    yield _judge("max_user_watches", measured, found.watches, found.watches_used, need)
    measured = f"{found.instances_used} of {found.instances} used{unseen}; {nodes} nodes need {nodes}"
    yield _judge("max_user_instances", measured, found.instances, found.instances_used, nodes)
    if found.queue is not None:
        need = nodes * BURST
        yield _judge("max_queued_events", f"{found.queue}; a round needs {need}", found.queue, 0, need)


def _judge(name: str, measured: str, limit: int, used: int, need: int) -> Finding:
    if limit - used >= need:
        return INOTIFY.ok(name, measured)
    fix = f"sudo sysctl fs.inotify.{name}={2 * (used + need)} (nodes go on by listing, but slower)"
    return INOTIFY.warning(name, measured, fix)
