"""Which nodes the others refuse, by their own records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from swarm.records.read import Tail, nodes_with_logs, parse_line
from swarm.tasks.registry import Families
from swarm.types import OTHER_VERSION
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.text import counts, shorten
from swarm.wire.layout import Layout

AREA = Area("trust")
RECENT = 20
"""Rounds of each node that are looked at: what was long ago is over."""
MENDS = {
    OTHER_VERSION: f"install the same {', '.join(Families().packages)} on all nodes: pip install <package>==<version>",
    "unknown_family": "use the same SWARM_TASK_FAMILIES on all nodes",
    "question_mismatch": "use the same SEED, SWARM_PROFILE and SWARM_TASKS everywhere; else this peer forges questions",
    "unknown_task": "use the same SWARM_TASKS and SWARM_PROFILE on all nodes",
    "oversized": "raise SWARM_MAX_FILE_BYTES where such files are meant; else this peer floods the folder",
    "scorer_abuse": "its answers hang the scorer: stop that node, or leave it in quarantine",
    "wrong_version": "run the same swarm version on all nodes",
    "no_origin": "a peer of another implementation? SWARM_ADMIT=unverified lets it in",
}
OTHERWISE = "look at its `swarm logs --node`, and stop it if nobody knows it: it costs time and is not learned from"


class Refusals(msgspec.Struct):
    """What the recent rows say, by peer."""

    reasons: dict[str, Counter[str]]
    """Peer -> reason -> files and groups refused."""
    by: dict[str, set[str]]
    """Peer -> nodes that refused it."""
    quarantined: dict[str, set[str]]
    """Peer -> nodes whose last row has it in quarantine."""


class _Glance(msgspec.Struct):
    refused_by_peer: dict[str, dict[str, int]] = {}
    quarantined: list[str] = []


def check(context: CheckContext) -> Iterator[Finding]:
    """Refused and quarantined peers."""
    if context.there:
        yield from judge(measure(context.layout))


def measure(layout: Layout) -> Refusals:
    """Add up the last rows of every node."""
    found = Refusals(defaultdict(Counter), defaultdict(set), defaultdict(set))
    for node in nodes_with_logs(layout):
        rows = [row for line in Tail(layout.metrics_file(node)).read() if (row := parse_line(line, _Glance))][-RECENT:]
        for row in rows:
            for peer, reasons in row.refused_by_peer.items():
                found.reasons[peer].update(reasons)
                found.by[peer].add(node)
        for peer in rows[-1].quarantined if rows else ():
            found.quarantined[peer].add(node)
    return found


def judge(found: Refusals) -> Iterator[Finding]:
    """One finding per peer that is refused."""
    peers = sorted({*found.reasons, *found.quarantined})
    if not peers:
        yield AREA.ok("refused peers", f"none in the last {RECENT} rounds of any node")
    for peer in peers:
        reasons = found.reasons.get(peer, Counter())
        held = f"; quarantined by {len(found.quarantined[peer])} nodes" if found.quarantined.get(peer) else ""
        measured = f"{shorten(peer, 64)}: {counts(reasons)}, by {len(found.by.get(peer, ()))} nodes{held}"
        yield AREA.warning("refused peer", measured, mend_for(reasons))


def mend_for(reasons: Mapping[str, int]) -> str:
    """What fixes the commonest reason."""
    commonest = max(reasons, key=lambda reason: reasons[reason], default="")
    return MENDS.get(commonest, OTHERWISE)
