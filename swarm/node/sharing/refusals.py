"""Refusals of peers' files and groups: all of them counted, the first few of each peer and round in the log."""

from __future__ import annotations

from collections import Counter

from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.node.sharing.intake_counts import OTHERS, Counts
from swarm.types import RoundKey

logger = get_logger(__name__)

LINES_PER_PEER = 3
LINES_PER_ROUND = 50
"""Of refusals in the log; the others are counted alone, so that nobody can fill a disk with them."""
LONGEST_DETAIL = 400
"""Characters."""


class Refusals:
    """Of one node."""

    def __init__(self) -> None:
        self._lines: Counter[tuple[int, str]] = Counter()

    def refuse(self, counts: Counts, key: RoundKey, peer: str, error: ProtocolError) -> None:
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

    def flood(self, counts: Counts, key: RoundKey, names: int, most: int) -> None:
        """So many names of a stage are beyond the `most` that are read; said once per stage."""
        counts.refused_by_peer[OTHERS]["flood"] += names
        logger.warning("rollouts.flood", round=key.round, stage=key.stage, names=names, read=most)

    def forget_before(self, round_: int) -> None:
        """Earlier rounds do not come again."""
        self._lines = Counter({(r, peer): lines for (r, peer), lines in self._lines.items() if r >= round_})
