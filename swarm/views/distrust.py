"""Whom do the nodes of an experiment refuse or distrust, and why? From their metrics rows alone.

Each node speaks for itself: what one node says of another may be a lie of its own, so it is said how many say it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from swarm.views.text import counts, shorten, table

ANYBODY = "*"
"""Stands for peers that a row does not name."""
MOST_LINES = 20


class Distrust(msgspec.Struct, kw_only=True):
    """What others say of one peer."""

    peer: str
    refused: dict[str, int]
    """Its files and groups that were refused, by reason, over the whole run and all nodes."""
    refused_by: list[str]
    """Nodes that refused any."""
    false_claims: int
    """Rewards and answers that it published and others found otherwise."""
    quarantined_by: list[str]
    """Nodes that read nothing of it by now."""


class Opinion:
    """What one node's rows add up to, by peer."""

    def __init__(self) -> None:
        self.refused: dict[str, Counter[str]] = defaultdict(Counter)
        self.false_claims: Counter[str] = Counter()
        self.quarantined: frozenset[str] = frozenset()

    def observe(
        self, refused: Mapping[str, Mapping[str, int]], false_claims: Mapping[str, int], quarantined: Sequence[str]
    ) -> None:
        """Take note of one row."""
        for peer, reasons in refused.items():
            self.refused[peer].update(reasons)
        self.false_claims.update(false_claims)
        self.quarantined = frozenset(quarantined)


def distrusted(opinions: Mapping[str, Opinion]) -> list[Distrust]:
    """One entry per peer that any node has something against, those that most is held against first."""
    peers = {peer for said in opinions.values() for peer in (*said.refused, *said.false_claims, *said.quarantined)}
    found = [_of(peer, opinions) for peer in peers]
    return sorted(found, key=lambda d: (-len(d.quarantined_by), -sum(d.refused.values()), -d.false_claims, d.peer))


def _of(peer: str, opinions: Mapping[str, Opinion]) -> Distrust:
    refused: Counter[str] = Counter()
    for opinion in opinions.values():
        refused.update(opinion.refused.get(peer, {}))
    return Distrust(
        peer=peer,
        refused=dict(refused),
        refused_by=sorted(node for node, opinion in opinions.items() if peer in opinion.refused),
        false_claims=sum(opinion.false_claims[peer] for opinion in opinions.values()),
        quarantined_by=sorted(node for node, opinion in opinions.items() if peer in opinion.quarantined),
    )


def render_distrusted(peers: Sequence[Distrust]) -> str:
    """A table for a terminal, empty where nobody is distrusted."""
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
