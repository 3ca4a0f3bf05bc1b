"""Are there inotify watches enough for a long run? Running out while running is silent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding

AREA = Area("inotify")
SYSTEM = Path("/proc/sys")
"""inotify(7): fs/inotify has the machine's limits; namespaces(7): user/ has those of this user namespace, a container's
own. Both hold."""
PROCESSES = Path("/proc")
WATCHES_PER_ROUND = 2
"""Each worker watches rollouts/ with everything below: round_R and stage_0 in it; a coordinator watches rewards/ so."""
INSTANCES_PER_NODE = 1
BURST = 16
"""Events per node and round that may wait in one queue."""


class Inotify(msgspec.Struct, frozen=True):
    """Limits of this user and what is in use. A limit that is not told is None."""

    watches: int | None
    instances: int | None
    queue: int | None
    watches_used: int = 0
    instances_used: int = 0
    unseen: int = 0
    """Processes of this user that could not be looked into."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Limits against use and need."""
    nodes = nodes_here(context)
    yield from judge(measure(), nodes, context.settings.max_rounds)


def nodes_here(context: CheckContext) -> int:
    """Nodes that run on this host, or will: those alive, at least the workers expected and a coordinator."""
    nodes = context.watched.nodes if context.there else {}
    here = socket.gethostname()
    alive = sum(watch.alive and watch.peer.host.partition("/")[0] == here for watch in nodes.values())
    return max(alive, context.settings.expected_workers + 1)


def measure(system: Path = SYSTEM, processes: Path = PROCESSES) -> Inotify:
    """Read the limits, and count what this user's processes hold."""
    limit = {what: _limit(system, what) for what in ("watches", "instances")}
    queue = _number(system / "fs" / "inotify" / "max_queued_events")
    watches = instances = unseen = 0
    for process in _own_processes(processes):
        try:
            for descriptor in os.listdir(process / "fd"):
                held = _watches(process, descriptor)
                instances += held is not None
                watches += held or 0
        except OSError:
            unseen += process.exists()
    return Inotify(limit["watches"], limit["instances"], queue, watches, instances, unseen)


def _limit(system: Path, what: str) -> int | None:
    places = (system / "fs" / "inotify" / f"max_user_{what}", system / "user" / f"max_inotify_{what}")
    return min((number for place in places if (number := _number(place)) is not None), default=None)


def _own_processes(processes: Path) -> Iterator[Path]:
    for process in processes.glob("[0-9]*"):
        try:
            if process.stat().st_uid == os.getuid():
                yield process
        except OSError:  # it has ended
            continue


def _watches(process: Path, descriptor: str) -> int | None:
    """Watches of one descriptor, None for one that is no inotify instance."""
    try:
        if "inotify" not in os.readlink(process / "fd" / descriptor):
            return None
        return (process / "fdinfo" / descriptor).read_bytes().count(b"inotify wd:")
    except OSError:  # closed meanwhile
        return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def judge(inotify: Inotify, nodes: int, rounds: int) -> Iterator[Finding]:
    """The figures as findings."""
    if inotify.watches is None or inotify.instances is None:
        yield AREA.ok("limits", "this system has none, or does not tell")
        return
    unseen = f", {inotify.unseen} processes not readable" if inotify.unseen else ""
    need = nodes * (rounds * WATCHES_PER_ROUND + 4)
    measured = f"{inotify.watches_used} of {inotify.watches} used{unseen}; {nodes} nodes x {rounds} rounds need {need}"
    yield _judge("user_watches", measured, inotify.watches - inotify.watches_used, need, inotify.watches_used)
    need = nodes * INSTANCES_PER_NODE
    measured = f"{inotify.instances_used} of {inotify.instances} used{unseen}; {nodes} nodes need {need}"
    yield _judge("user_instances", measured, inotify.instances - inotify.instances_used, need, inotify.instances_used)
    if inotify.queue is not None:
        yield _judge(
            "queued_events", f"{inotify.queue}; a round needs {nodes * BURST}", inotify.queue, nodes * BURST, 0
        )


def _judge(limit: str, measured: str, free: int, need: int, used: int) -> Finding:
    name = f"max_{limit}"
    if free >= need:
        return AREA.ok(name, measured)
    fix = f"sudo sysctl fs.inotify.{name}={2 * (used + need)} (nodes go on by listing, but slower)"
    return AREA.warning(name, measured, fix)
