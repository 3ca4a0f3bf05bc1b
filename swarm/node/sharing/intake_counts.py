"""Counts what came in from peers between two metrics rows, and fills their columns; the numbers are bounded.

Refusals of files and groups are all counted, and the first few of each peer and round are in the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.types import RoundKey
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)

OTHERS = "*"
"""Stands for all peers that are not named; no node is called so."""
MOST_NAMED = 64
"""Peers that one row names; of a thousand strangers most are worth a number alone."""
LINES_PER_PEER = 3
LINES_PER_ROUND = 50
"""Lines of refusals in the log; the others are counted alone, so that nobody can fill a disk with them."""
LONGEST_DETAIL = 400
"""Characters."""


@dataclass
class IntakeCounts:
    """Filled while files come in."""

    refused_by_peer: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Peer -> reason -> files and groups."""
    accepted_by_peer: Counter[str] = field(default_factory=Counter)
    """Peer -> groups."""
    false_claims: Counter[str] = field(default_factory=Counter)
    alive: set[str] = field(default_factory=set)
    """Peers that were seen alive; these are named before those of whom there is nothing but files."""
    killed: int = 0
    errors: int = 0
    bytes_fetched: int = 0
    latencies: list[float] = field(default_factory=list)
    """Per file that came while this node looked: seconds from its timestamp until it was listed."""
    quarantined: list[str] = field(default_factory=list)
    """Peers of which nothing is read in the round after the row."""

    @property
    def refused(self) -> Counter[str]:
        """Returns files and groups, by reason."""
        return sum(self.refused_by_peer.values(), Counter())

    def fill(self, row: MetricsRow) -> None:
        """Fills the row's columns about peers' files, among them all that Quarantine is told."""
        row.refused_files = dict(self.refused)
        row.refused_by_peer = self.refused_named()
        row.accepted_by_peer = dict(sorted(self.accepted_by_peer.items()))
        row.false_claims = self._named(self.false_claims)
        row.quarantined = self.quarantined
        row.score_killed += self.killed
        row.score_errors += self.errors
        row.bytes_fetched = self.bytes_fetched
        row.publish_to_pool = self.latencies

    def refused_named(self) -> dict[str, dict[str, int]]:
        """refused_by_peer, with strangers, and those that were refused least often, summed up as OTHERS."""
        most = self._ranked({peer: reasons.total() for peer, reasons in self.refused_by_peer.items()})
        few = set(most[MOST_NAMED:]) | ({OTHERS} & self.refused_by_peer.keys())
        named = {peer: self.refused_by_peer[peer] for peer in most if peer not in few}
        if few:
            named[OTHERS] = sum((self.refused_by_peer[peer] for peer in few), Counter())
        return {peer: dict(sorted(reasons.items())) for peer, reasons in sorted(named.items())}

    def _named(self, by_peer: Mapping[str, int]) -> dict[str, int]:
        """Returns the first MOST_NAMED, and the sum of all others."""
        most = self._ranked(by_peer)
        shown = {peer: by_peer[peer] for peer in sorted(most[:MOST_NAMED])}
        left = sum(by_peer[peer] for peer in most[MOST_NAMED:])
        return shown | ({OTHERS: left} if left else {})

    def _ranked(self, by_peer: Mapping[str, int]) -> list[str]:
        return sorted(by_peer, key=lambda peer: (peer not in self.alive, -by_peer[peer], peer))


class Refusals:
    """Counts one node's refusals, and logs the first few of each peer and round."""

    def __init__(self) -> None:
        self._lines: Counter[tuple[int, str]] = Counter()

    def refuse(self, counts: IntakeCounts, key: RoundKey, peer: str, error: ProtocolError) -> None:
        """Count one refusal, and log it as far as there is room."""
        counts.refused_by_peer[peer][error.reason] += 1
        self._lines[key.round, peer] += 1
        self._lines[key.round, OTHERS] += 1
        said, said_of_all = self._lines[key.round, peer], self._lines[key.round, OTHERS]
        if said > LINES_PER_PEER or said_of_all > LINES_PER_ROUND:
            return
        last = said == LINES_PER_PEER or said_of_all == LINES_PER_ROUND
        logger.warning(
            "rollouts.refused",
            peer=peer,
            round=key.round,
            stage=key.stage,
            reason=error.reason,
            detail=error.detail[:LONGEST_DETAIL],
            **({"more": "counted in the metrics row alone"} if last else {}),
        )

    def flood(self, counts: IntakeCounts, key: RoundKey, names: int, most: int) -> None:
        """Counts so many names of a stage beyond the `most` that are read; said once per stage."""
        counts.refused_by_peer[OTHERS]["flood"] += names
        logger.warning("rollouts.flood", round=key.round, stage=key.stage, names=names, read=most)

    def forget_before(self, round_: int) -> None:
        """Earlier rounds do not come again."""
        self._lines = Counter({(r, peer): lines for (r, peer), lines in self._lines.items() if r >= round_})
