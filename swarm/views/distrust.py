"""Peers that the nodes of an experiment refuse or distrust, with the reasons, from the nodes' metrics rows alone.

Each node speaks for itself: what one node says of another may be a lie of its own, so it is said how many say it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from swarm.records.progress import NodeProgress
from swarm.views.text import counts, shorten, table

ANYBODY = "*"
"""Stands for peers that a row does not name."""
MOST_LINES = 20
MOST_TOLD = 1000
"""Nodes of whom something is told: names cost who writes a row nothing."""


class Distrust(msgspec.Struct, kw_only=True):
    """Holds what others say of one peer."""

    peer: str
    refused: dict[str, int]
    """Its files and groups that were refused, by reason, over the whole run and all nodes."""
    refused_by: list[str]
    """Nodes that refused any."""
    false_claims: int
    """Rewards and answers that it published and others found otherwise."""
    false_claims_by: list[str]
    """Nodes that found any."""
    quarantined_by: list[str]
    """Nodes that read nothing of it by now."""


def distrusted(nodes: Mapping[str, NodeProgress]) -> list[Distrust]:
    """Returns one entry per peer that any node has something against: nodes of the run before names that may be
    invented, and those that most is held against first."""
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    claims: Counter[str] = Counter()
    by, found_by, quarantined = (defaultdict[str, list[str]](list) for _ in range(3))
    for node, said in sorted(nodes.items()):
        claims.update(said.counts["false_claims"])
        for peer in said.counts["false_claims"]:
            found_by[peer].append(node)
        for peer, reasons in said.refused_by_peer.items():
            refused[peer].update(reasons)
            by[peer].append(node)
        for peer in {*(said.last.quarantined if said.last else ())}:
            quarantined[peer].append(node)

    def order(peer: str) -> tuple[bool, int, int, int, str]:
        refusals = sum(refused.get(peer, {}).values())
        return peer not in nodes, -len(quarantined.get(peer, ())), -refusals, -claims[peer], peer

    return [
        Distrust(
            peer=peer,
            refused=dict(refused.get(peer, {})),
            refused_by=by.get(peer, []),
            false_claims=claims[peer],
            false_claims_by=found_by.get(peer, []),
            quarantined_by=quarantined.get(peer, []),
        )
        for peer in sorted({*refused, *claims, *quarantined}, key=order)[:MOST_TOLD]
    ]


def render_distrusted(peers: Sequence[Distrust]) -> str:
    """Returns a table for a terminal, empty where nobody is distrusted."""
    if not peers:
        return ""
    names = ("distrusted", "refused", "by nodes", "false claims", "quarantined by", "why")
    text = table(names, [_cells(peer) for peer in peers[:MOST_LINES]], left=(0, 4, 5))
    left = len(peers) - MOST_LINES
    return text + (f"\nand {left} more (--json shows all)" if left > 0 else "")


def _cells(peer: Distrust) -> list[str]:
    return [
        "(others)" if peer.peer == ANYBODY else shorten(peer.peer, 24),
        str(sum(peer.refused.values())),
        str(len(peer.refused_by)),
        str(peer.false_claims),
        shorten(", ".join(peer.quarantined_by), 24) or "-",
        shorten(counts(peer.refused), 40),
    ]
