"""A shared folder itself: writing and its speed, renames, names, its clock; and file events, by which nodes look
sooner than they would: whether those of other hosts arrive, and inotify's limits.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

from swarm.records.listing import nodes_in
from swarm.store.health import NEWEST_WATCHED, FileSystem, Inotify, Naming, Renaming, Writing
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.wire import keys

FOLDER, RENAME, NAMES, CLOCKS = Area("folder"), Area("rename"), Area("names"), Area("clocks")
SLOW = 0.5
"""Seconds for a durable write, from which publishing shows in a round of a few seconds."""
SHARE_OF_ROUND = 0.25
"""Share of the round interval; a node writes about four files in a round, one after another."""
SKEW_TOLERATED = 5.0
"""Seconds. Nodes judge each other by change, not by time, so this only skews what people see: ages and delays."""
EVENTS, INOTIFY = Area("events"), Area("inotify")
WATCHES_PER_ROUND = 2
"""Each worker watches the newest folders of rollouts/: round_R and stage_0 in it; a coordinator those of rewards/."""
BURST = 16
"""Events per node and round that may wait in one queue."""


def check_writing(context: CheckContext) -> Iterator[Finding]:
    """Exists or can be made, writable, fast enough."""
    path, interval = context.settings.place, context.settings.round_interval
    if folder := context.health.folder:
        yield from judge_writing(folder.writing(), path, interval)


def judge_writing(writing: Writing, path: str, round_interval: float) -> Iterator[Finding]:
    """Yields the figures as findings."""
    if writing.problem:
        fix = f"chmod u+rwx or remount read-write, free space, or name another folder: --path; the folder is {path}"
        yield FOLDER.failure("writable", writing.problem, fix)
        return
    made = "exists and is writable" if writing.there else f"not there yet, can be made in {writing.parent}"
    yield FOLDER.ok("writable", made)
    took, limit = median(writing.seconds), SHARE_OF_ROUND * round_interval
    measured = f"{took * 1e3:.1f} ms for 60 kB with fsync and rename, median of {len(writing.seconds)}"
    if took > limit:
        fix = f"use a faster folder, or COORDINATOR_ROUND_INTERVAL above {took / SHARE_OF_ROUND:.0f}"
        yield FOLDER.failure("write time", f"{measured}; rounds close after {round_interval:g} s", fix)
    else:
        fix = "expect slow rounds; a local disk with a replication tool is faster"
        yield FOLDER.graded("write time", measured, fix, warning=took > SLOW)


def check_renaming(context: CheckContext) -> Iterator[Finding]:
    """A rename over an existing file works, and is seen at once."""
    if (folder := context.health.folder) and not context.health.problem:
        yield judge_renaming(folder.renaming())


def judge_renaming(seen: Renaming) -> Finding:
    """Returns the counts as a finding."""
    if seen.problem:
        fix = "use another --path, such as a local disk with Syncthing: here a file cannot be replaced in one step"
        return RENAME.failure("over an existing file", seen.problem, fix)
    fix = "switch the mount's cache off (NFS: actimeo=0,lookupcache=none; rclone: --dir-cache-time 1s)"
    figures = f"{seen.renames - seen.late} of {seen.renames} renames over an existing file seen at once"
    return RENAME.graded("seen at once", figures, fix, warning=seen.late > 0)


def check_names(context: CheckContext) -> Iterator[Finding]:
    """Case, refused names, length of paths."""
    if (folder := context.health.folder) and not context.health.problem:
        nodes = nodes_in(context.run.store, keys.PEERS) if context.run else ()
        yield from judge_names(folder.naming(), nodes)


def judge_names(naming: Naming, nodes: Iterable[str] = ()) -> Iterator[Finding]:
    """Yields the figures as findings.

    Args:
        nodes: of the experiment.
    """
    alike = defaultdict(list)
    for node in sorted(nodes):
        alike[node.casefold()].append(node)
    pairs = ", ".join(" and ".join(group) for group in alike.values() if len(group) > 1)
    if pairs:
        fix = "give one of them another NODE_ID: anybody who copies this folder to macOS or Windows loses one of them"
        yield NAMES.warning("case", f"{pairs} differ only in case", fix)
    elif naming.folds_case:
        fix = "choose node ids that differ in more than case, such as the generated ones"
        yield NAMES.warning("case", "a and A are one file: NODE_IDs that differ only in case overwrite each other", fix)
    else:
        yield NAMES.ok("case", "a and A are two files, no node ids differ only in case")
    if naming.refused:
        fix = "leave such NODE_IDs out; the generated ones work"
        yield NAMES.warning("node ids", f"refused here: {', '.join(naming.refused)}", fix)
    else:
        yield NAMES.ok("node ids", f"{naming.tried} odd and long ones taken")
    length = f"{naming.longest_path} bytes at most, the system takes {naming.path_limit}"
    too_long = naming.longest_path >= naming.path_limit
    yield NAMES.graded("path length", length, "use a shorter --path or --experiment", failure=too_long)


def check_clock(context: CheckContext) -> Iterator[Finding]:
    """A file made now is as old as it should be."""
    if not context.health.problem:
        yield judge_clock(context.server_skew)


def judge_clock(skew: float) -> Finding:
    """Returns the seconds as a finding."""
    measured = f"a file made now is {skew:+.2f} s off this host's clock"
    fix = "let this host and the file server keep time: timedatectl set-ntp true"
    return CLOCKS.graded("file server", measured, fix, warning=abs(skew) > SKEW_TOLERATED)


def check_events(context: CheckContext) -> Iterator[Finding]:
    """Tells whether events of other hosts arrive, by the kind of file system."""
    folder, interval = context.health.folder, context.settings.cadence.reconcile_interval
    if folder is None:
        return
    yield judge_filesystem(folder.file_system(), interval)
    if context.settings.cadence.watch == "off":
        yield EVENTS.ok("delivery", f"SWARM_WATCH=off: nodes list every {interval:g} s")


def judge_filesystem(filesystem: FileSystem, interval: float) -> Finding:
    """Tells whether other hosts' events can arrive at all."""
    where = f"{filesystem.kind} at {filesystem.mount}" if filesystem.mount else filesystem.kind
    if filesystem.delivers_events:
        return EVENTS.ok("file system", f"{where}: events arrive for all that this host writes")
    measured = f"{where}: no events for what other hosts write; nodes find it by listing, every {interval:g} s"
    return EVENTS.warning("file system", measured, "nothing breaks; for quicker rounds lower SWARM_RECONCILE_INTERVAL")


def check_inotify(context: CheckContext) -> Iterator[Finding]:
    """Limits against use and need; running out while running is silent."""
    if folder := context.health.folder:
        yield from judge_inotify(folder.inotify(), nodes_here(context), context.settings.max_rounds)


def nodes_here(context: CheckContext) -> int:
    """Returns nodes that run on this host, or will: those alive, at least the workers expected and a coordinator."""
    here = socket.gethostname()
    of_nodes = context.watched.nodes.values()
    alive = sum(watch.alive and watch.peer.host.partition("/")[0] == here for watch in of_nodes)
    return max(alive, (context.settings.expected_count or 1) + 1)


def judge_inotify(found: Inotify, nodes: int, rounds: int) -> Iterator[Finding]:
    """Yields the figures as findings."""
    if found.watches is None or found.instances is None:
        yield INOTIFY.ok("limits", "this system has none, or does not tell")
        return
    unseen = f", {found.unseen} processes not readable" if found.unseen else ""
    need = nodes * (min(rounds, NEWEST_WATCHED) * WATCHES_PER_ROUND + 4)
    measured = f"{found.watches_used} of {found.watches} used{unseen}; {nodes} nodes need {need}"
    yield _judge("max_user_watches", measured, found.watches, found.watches_used, need)
    measured = f"{found.instances_used} of {found.instances} used{unseen}; {nodes} nodes need {nodes}"
    yield _judge("max_user_instances", measured, found.instances, found.instances_used, nodes)
    if found.queue is not None:
        need = nodes * BURST
        yield _judge("max_queued_events", f"{found.queue}; a round needs {need}", found.queue, 0, need)


def _judge(name: str, measured: str, limit: int, used: int, need: int) -> Finding:
    fix = f"sudo sysctl fs.inotify.{name}={2 * (used + need)} (nodes go on by listing, but slower)"
    return INOTIFY.graded(name, measured, fix, warning=limit - used < need)
