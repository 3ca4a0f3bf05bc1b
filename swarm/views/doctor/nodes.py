"""The nodes: liveness, doubled ids, coordinators, clocks; the round clock; hints; and versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

from swarm.records.listing import rounds_in
from swarm.records.starts import last_starts
from swarm.tasks.registry import Families
from swarm.types import OTHER_VERSION
from swarm.views.doctor.check import CheckContext, Finding, Watch, WatchedNodes, failure, ok, warning
from swarm.views.doctor.machine import installed_version
from swarm.views.text import age, shorten
from swarm.wire import keys
from swarm.wire.messages import StateFile

SKEW_TOLERATED = 5.0
"""Seconds. Nodes judge each other by change, not by time, so this only skews what people see: ages and delays."""


def check_nodes(context: CheckContext) -> Iterator[Finding]:
    """Everything that watching the registrations shows."""
    if context.now is None:
        return
    watched, now = context.watched, context.timing.wall() + context.server_skew
    if not watched.nodes:
        yield ok("registered", "nobody has registered yet")
        return
    yield stale(watched, now, context.settings.cadence.liveness_timeout)
    yield duplicates(watched)
    yield coordinators(watched, context.now.state, wanted=context.wants_coordinator)
    yield clocks(watched)


def stale(watched: WatchedNodes, now: float, timeout: float) -> Finding:
    """Nodes that are registered as running, and do nothing.

    Args:
        now: Unix seconds by the file server's clock, which dates the files.
        timeout: seconds after which the others take a silent node for dead.
    """
    silent = [n for n, w in sorted(watched.nodes.items()) if not w.beats and not w.said_goodbye]
    alive = [name for name, watch in watched.nodes.items() if watch.alive]
    gone = len(watched.nodes) - len(silent) - len(alive)
    figures = f"{len(alive)} alive, {gone} said goodbye, {len(silent)} silent for {watched.seconds:.1f} s"
    if not silent:
        return ok("alive", figures)
    named = ", ".join(f"{n} ({_last_sign(watched.nodes[n], now)})" for n in silent)
    dead = [name for name in silent if now - watched.nodes[name].file_time > timeout]
    if not dead:
        return warning("alive", f"{figures}: {named}", "look again with --seconds 20: they may only be slow")
    fix = "start them again under the same NODE_ID (they resume), or delete their peers/{node}.json"
    return warning("alive", f"{figures}: {named}", fix)


def _last_sign(watch: Watch, now: float) -> str:
    host = watch.peer.host.partition("/")[0] or "?"
    return f"pid {watch.peer.pid} on {host}, last sign {age(max(0.0, now - watch.file_time))} ago"


def duplicates(watched: WatchedNodes) -> Finding:
    """Node ids that two processes use at once."""
    doubled = {name: watch for name, watch in sorted(watched.nodes.items()) if watch.doubled}
    if not doubled:
        return ok("one process per id", f"no id was written by turns within {watched.seconds:.1f} s")
    named = ", ".join(f"{name} by {len(set(watch.incarnations))} processes" for name, watch in doubled.items())
    return failure("one process per id", f"written by turns: {named}", "stop one of each, or give it its own NODE_ID")


def coordinators(watched: WatchedNodes, state: StateFile | None, *, wanted: bool) -> Finding:
    """Exactly one where one is wanted and somebody waits for it; a standby takes over by itself."""
    there, workers = watched.alive("coordinator"), len(watched.alive("worker"))
    standing_by = sum(w.alive and w.stands_by for w in watched.nodes.values())
    figures = f"{len(there)} alive, {standing_by} on standby, {workers} workers"
    if len(there) > 1:
        fix = f"stop all but one of {', '.join(there)}; for a spare one, --standby"
        return failure("coordinator", figures, fix)
    if there or standing_by or not wanted or not workers or (state is not None and state.finished):
        return ok("coordinator", figures if wanted else f"{figures}; the experiment wants none")
    fix = "start one: swarm node --role coordinator; till then workers wait, and go on by themselves after a while"
    return failure("coordinator", f"{figures} without one", fix)


def clocks(watched: WatchedNodes) -> Finding:
    """Nodes whose clock is not this host's."""
    skews = {name: watch.skew for name, watch in sorted(watched.nodes.items()) if watch.skew is not None}
    off = {name: skew for name, skew in skews.items() if abs(skew) > SKEW_TOLERATED}
    if off:
        named = ", ".join(f"{name} {skew:+.1f} s" for name, skew in off.items())
        return warning("clocks", named, "let those hosts keep time: timedatectl set-ntp true (ages shown are wrong)")
    worst = max(map(abs, skews.values()), default=0.0)
    return ok("clocks", f"{len(skews)} seen beating, at most {worst:.2f} s off")


def check_state(context: CheckContext) -> Iterator[Finding]:
    """The round clock can be read, is of this experiment, and is there where there are rewards."""
    if context.now is None:
        return
    run, state, wanted = context.now.run, context.now.state, context.wants_coordinator
    restore = "start the coordinator (swarm node --role coordinator): it restores the file from the folder's rounds"
    if context.now.problem:
        yield failure("clock", shorten(context.now.problem, 200), restore)
    elif state is None and wanted and rounds_in(run.store, keys.REWARDS):
        yield failure("clock", "no state file, yet there are rewards", restore)
    elif state is None:
        yield ok("clock", "not started yet" if wanted else "none: every node is on its own clock")
    elif state.experiment_name != run.experiment:
        fix = "the folder was copied or renamed: give it back its name, or begin a new --experiment"
        yield failure("clock", f"of experiment {shorten(state.experiment_name, 64)!r}", fix)
    else:
        yield ok("clock", f"{state.round}/{state.max_rounds or '?'} rounds done")


SPEAK_AFTER = 100
"""Rounds after which every rule of swarm.records.hints has seen enough."""
EARLY = ", which is too early for most of them"
OURS = "swarm"


def check_hints(context: CheckContext) -> Iterator[Finding]:
    """Yields the hints that say why nodes learn nothing although there is no error."""
    if context.now is None:
        return
    hints = context.now.hints()
    if not hints:
        rounds = context.now.rounds_done
        yield ok("hints", f"none after {rounds} rounds{EARLY if rounds < SPEAK_AFTER else ''}")
    for hint in hints:
        measured = f"{shorten(', '.join(hint.nodes), 64)}: {hint.evidence}"
        yield warning(hint.code, measured, f"{hint.remedy} ({hint.page})")


def check_versions(context: CheckContext) -> Iterator[Finding]:
    """Versions by the nodes' own last starts."""
    if not context.run:
        return
    said = {start.node_id: start.versions for start in last_starts(context.run) if start.versions}
    for package in (*Families(context.settings.task_families).packages, OURS):
        yield judge_package(package, said, installed_version(package))


def judge_package(package: str, said: Mapping[str, Mapping[str, str]], here: str) -> Finding:
    """Tells whether all nodes have one version of a package; of those that make questions, which is needed to
    regenerate them.

    Args:
        said: node -> package -> version.
        here: the version that a node started on this host would have, empty for none.
    """
    by_node = {node: versions[package] for node, versions in said.items() if _is_version(versions.get(package, ""))}
    versions = set(by_node.values())
    if len(versions) > 1 and package == OURS:
        return warning(OURS, _by_value(by_node), "install one version everywhere; old forms are still read")
    if len(versions) > 1:
        from packaging.version import Version  # here: most doctors need it not

        newest = max(versions, key=Version)
        fix = f"pip install {package}=={newest} everywhere: with others, groups are refused ({OTHER_VERSION})"
        return failure(package, _by_value(by_node), fix)
    if by_node and here and here not in versions:
        fix = f"pip install {package}=={next(iter(versions))} before starting a node here"
        return warning(package, f"{_by_value(by_node)}, but {here} on this host", fix)
    return ok(package, _by_value(by_node) or "no node has said its version")


def _is_version(text: str) -> bool:
    """Tells whether a stranger's text is a plain version, which may stand in a command that somebody will copy."""
    from packaging.version import InvalidVersion, Version

    with suppress(InvalidVersion):
        return len(text) <= 40 and str(Version(text)) == text
    return False


def _by_value(values: Mapping[str, str]) -> str:
    nodes = defaultdict(list)
    for node, value in sorted(values.items()):
        nodes[value].append(node)
    if len(nodes) == 1:
        return f"{shorten(next(iter(nodes)), 60)} on {len(values)} nodes"
    return "; ".join(f"{shorten(value, 60)} on {shorten(', '.join(names), 80)}" for value, names in nodes.items())
