"""The shared place itself: whether it can be written and how fast, renames, names, its clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

from swarm.records.listing import nodes_in
from swarm.store.health import Naming, Renaming, Writing
from swarm.views.doctor.context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.wire import keys

FOLDER, RENAME, NAMES, CLOCKS = Area("folder"), Area("rename"), Area("names"), Area("clocks")
SLOW = 0.5
"""Seconds for a durable write, from which publishing shows in a round of a few seconds."""
SHARE_OF_ROUND = 0.25
"""Of the round interval; a node writes about four files in a round, one after another."""
FEWEST_READS = 20
SKEW_TOLERATED = 5.0
"""Seconds. Nodes judge each other by change, not by time, so this only skews what people see: ages and delays."""


def check_writing(context: CheckContext) -> Iterator[Finding]:
    """Exists or can be made, writable, fast enough."""
    path, interval = str(context.settings.shared_folder), context.settings.round_interval
    yield from judge_writing(context.health.writing(), path, interval)


def judge_writing(writing: Writing, path: str, round_interval: float) -> Iterator[Finding]:
    """The figures as findings."""
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
    elif took > SLOW:
        fix = "expect slow rounds; a local disk with a replication tool is faster"
        yield FOLDER.warning("write time", measured, fix)
    else:
        yield FOLDER.ok("write time", measured)


def check_renaming(context: CheckContext) -> Iterator[Finding]:
    """A rename over an existing file works, is atomic, and is seen at once."""
    if not context.health.problem:
        yield judge_renaming(context.health.renaming())


def judge_renaming(seen: Renaming) -> Finding:
    """The counts as a finding."""
    other = "use another --path, such as a local disk with Syncthing: here a file cannot be replaced in one step"
    figures = f"{seen.renames} renames, {seen.reads} reads: {seen.torn} torn, {seen.missing} missing, {seen.late} late"
    if seen.problem:
        return RENAME.failure("over an existing file", seen.problem, other)
    if seen.torn or seen.missing:
        return RENAME.failure("atomic", figures, other)
    if seen.late:
        fix = "switch the mount's cache off (NFS: actimeo=0,lookupcache=none; rclone: --dir-cache-time 1s)"
        return RENAME.warning("seen at once", figures, fix)
    if seen.reads < FEWEST_READS:
        fix = "run swarm doctor again while the folder is less busy"
        return RENAME.warning("atomic", f"{figures}; too few to tell", fix)
    return RENAME.ok("atomic and seen at once", figures)


def check_names(context: CheckContext) -> Iterator[Finding]:
    """Case, refused names, length of paths."""
    if not context.health.problem:
        nodes = nodes_in(context.run.store, keys.PEERS) if context.run else ()
        yield from judge_names(context.health.naming(), nodes)


def judge_names(naming: Naming, nodes: Iterable[str] = ()) -> Iterator[Finding]:
    """The figures as findings.

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
    if naming.longest_path >= naming.path_limit:
        yield NAMES.failure("path length", length, "use a shorter --path or --experiment")
    else:
        yield NAMES.ok("path length", length)


def check_clock(context: CheckContext) -> Iterator[Finding]:
    """A file made now is as old as it should be."""
    if not context.health.problem:
        yield judge_clock(context.server_skew)


def judge_clock(skew: float) -> Finding:
    """The seconds as a finding."""
    measured = f"a file made now is {skew:+.2f} s off this host's clock"
    if abs(skew) <= SKEW_TOLERATED:
        return CLOCKS.ok("file server", measured)
    fix = "let this host and the file server keep time: timedatectl set-ntp true"
    return CLOCKS.warning("file server", measured, fix)
