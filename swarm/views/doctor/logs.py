"""Checks of what the nodes logged: peers that they refuse, and the versions and models that they run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from swarm.records.files import id_of
from swarm.records.reader import snapshot
from swarm.records.starts import last_starts
from swarm.tasks.registry import Families
from swarm.types import OTHER_VERSION
from swarm.views.doctor.check import RECENT, Area, CheckContext, Finding, NodeLogs
from swarm.views.doctor.machine import installed_version
from swarm.views.text import counts, shorten

TRUST, VERSIONS, HINTS = Area("trust"), Area("versions"), Area("hints")
OURS = "swarm"
FIXES = {
    OTHER_VERSION: f"install the same {', '.join(Families().packages)} on all nodes: pip install <package>==<version>",
    "unknown_family": "use the same SWARM_TASK_FAMILIES on all nodes",
    "question_mismatch": "use the same SEED, SWARM_PROFILE and SWARM_TASKS everywhere; else this peer forges questions",
    "reply_mismatch": "use the same task files everywhere, see `swarm task try`; else this peer forges conversations",
    "unknown_task": "use the same SWARM_TASKS and SWARM_PROFILE on all nodes",
    "oversized": "raise SWARM_MAX_FILE_BYTES where such files are meant; else this peer floods the folder",
    "scorer_abuse": "its answers hang the scorer: stop that node, or leave it in quarantine",
    "wrong_version": "run the same swarm version on all nodes",
    "no_origin": "a peer of another implementation? SWARM_ADMIT=unverified lets it in",
}
OTHERWISE = "look at its `swarm logs --node`, and stop it if nobody knows it: it costs time and is not learned from"

MOST_REFUSED = 20
"""Peers that are named; who writes rows may name any number."""
MOST_HELD = 10_000


class PeerRefusals(NamedTuple):
    """Holds what the recent rows say of one peer."""

    reasons: Counter[str]
    """Files and groups refused."""
    by: set[str]
    """Nodes that refused it."""
    quarantined_by: set[str]
    """Nodes whose last row has it in quarantine."""


def check_trust(context: CheckContext) -> Iterator[Finding]:
    """Refused and quarantined peers."""
    if context.run:
        yield from judge_trust(measure_trust(context.logs))
        if any(start.settings.get("signing", "off") != "off" for start in last_starts(context.run)):
            yield judge_signatures(id_of(context.run))


def check_hints(context: CheckContext) -> Iterator[Finding]:
    """Yields the hints that say why nodes learn nothing although there is no error."""
    if not context.run:
        return
    hints = snapshot(context.run).hints()
    if not hints:
        yield HINTS.ok("hints", "none")
    for hint in hints:
        measured = f"{shorten(', '.join(hint.nodes), 64)}: {hint.evidence}"
        yield HINTS.warning(hint.code, measured, f"{hint.remedy} ({hint.page})")


def measure_trust(logs: Mapping[str, NodeLogs]) -> dict[str, PeerRefusals]:
    """Add up the last rows of every node: peer -> what became of it."""
    found: dict[str, PeerRefusals] = defaultdict(lambda: PeerRefusals(Counter(), set(), set()))
    for node, log in logs.items():
        for row in log.recent:
            for peer, reasons in row.refused_by_peer.items():
                if peer not in found and len(found) >= MOST_HELD:
                    continue
                found[peer].reasons.update(reasons)
                found[peer].by.add(node)
        for peer in log.recent[-1].quarantined if log.recent else ():
            found[peer].quarantined_by.add(node)
    return dict(found)


def judge_trust(found: Mapping[str, PeerRefusals]) -> Iterator[Finding]:
    """One finding per peer that is refused."""
    if not found:
        yield TRUST.ok("refused peers", f"none in the last {RECENT} rounds of any node")
    ordered = sorted(found.items(), key=lambda one: (-len(one[1].quarantined_by), -one[1].reasons.total(), one[0]))
    if (more := len(ordered) - MOST_REFUSED) > 0:
        yield TRUST.warning("refused peers", f"{more} more, none refused more than those named", OTHERWISE)
    for peer, refusals in ordered[:MOST_REFUSED]:
        held = f"; quarantined by {len(refusals.quarantined_by)} nodes" if refusals.quarantined_by else ""
        measured = f"{shorten(peer, 64)}: {counts(refusals.reasons)}, by {len(refusals.by)} nodes{held}"
        yield TRUST.warning("refused peer", measured, fix_for(refusals.reasons))


def judge_signatures(id_: str | None) -> Finding:
    """Tells whether signatures hold for this run alone.

    Args:
        id_: the experiment's; empty where it has none, None where nobody can tell.
    """
    if id_:
        return TRUST.ok("signatures", "they name the experiment by its id: they hold for this run and its copies alone")
    if id_ is None:
        fix = "restore it from a copy: until then nodes that start believe nobody"
        return TRUST.warning("signatures", "experiment.json is gone, or is none", fix)
    fix = "begin a new experiment: what was signed elsewhere for one of this name is believed here too"
    return TRUST.warning("signatures", "they name the experiment by its name alone: an earlier version began it", fix)


def fix_for(reasons: Mapping[str, int]) -> str:
    """Returns what fixes the commonest reason."""
    commonest = max(reasons, key=lambda reason: reasons[reason], default="")
    return FIXES.get(commonest, OTHERWISE)


def check_versions(context: CheckContext) -> Iterator[Finding]:
    """Versions by the nodes' own last starts, and the models that they run."""
    if not context.run:
        return
    said = {node: log.versions for node, log in context.logs.items() if log.versions}
    for package in Families(context.settings.task_families).packages:
        yield judge_package(package, said, installed_version(package))
    yield judge_ours(said)
    models = {node: watch.peer.model for node, watch in context.watched.nodes.items() if watch.peer.model}
    yield VERSIONS.ok("models", _by_value(models) or "none loaded yet")  # they may differ


def judge_package(package: str, said: Mapping[str, Mapping[str, str]], here: str) -> Finding:
    """Tells whether questions of one package can be regenerated everywhere, which needs equal versions.

    Args:
        said: node -> package -> version.
        here: the version that a node started on this host would have, empty for none.
    """
    by_node = {node: versions[package] for node, versions in said.items() if _is_version(versions.get(package, ""))}
    versions = set(by_node.values())
    if len(versions) > 1:
        from packaging.version import Version  # here: most doctors need it not

        newest = max(versions, key=Version)
        fix = f"pip install {package}=={newest} everywhere: with others, groups are refused ({OTHER_VERSION})"
        return VERSIONS.failure(package, _by_value(by_node), fix)
    if by_node and here and here not in versions:
        fix = f"pip install {package}=={next(iter(versions))} before starting a node here"
        return VERSIONS.warning(package, f"{_by_value(by_node)}, but {here} on this host", fix)
    return VERSIONS.ok(package, _by_value(by_node) or "no node has said its version")


def judge_ours(said: Mapping[str, Mapping[str, str]]) -> Finding:
    """Tells whether all nodes are of one version."""
    by_node = {node: versions[OURS] for node, versions in said.items() if versions.get(OURS)}
    if len(set(by_node.values())) > 1:
        return VERSIONS.warning(OURS, _by_value(by_node), "install one version everywhere; old forms are still read")
    return VERSIONS.ok(OURS, _by_value(by_node) or "no node has said its version")


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
