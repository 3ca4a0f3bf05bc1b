"""Quarantine: which peers are not read for now. Decided from counts per round alone: the same rows, the same answer.

    accepted, refused groups of a round ─window of WINDOW rounds─▶ mostly refused? ─▶ quarantine ─▶ probation ─▶ free
                                                                        └─ an offence on probation: twice as long ─┘

Rounds are those of the node that judges, never wall time. The metrics rows hold all that goes in here, so a node that
comes back is told them again and knows what it knew: a kill sets no vandal free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swarm.node.sharing.intake_counts import OTHERS

WINDOW = 10
"""Rounds that are looked back upon."""
FEWEST_REFUSALS = 4
"""Within the window, for a peer to be judged at all: one torn or late file is no offence."""
HIGHEST_RATE = 0.5
"""Share of refused groups above which a peer is quarantined."""
LONGEST = 32
"""Times the first quarantine that any later one may last."""
NOT_ITS_OWN = frozenset({"unsigned", "bad_signature", "other_key", "pin_unreadable", "not_pinned", "not_begun"})
"""Refusals of files that anybody may have put there in the peer's name: nobody is to be quarantined by a stranger."""
NO_FAULT = NOT_ITS_OWN | {
    *("unreadable", "generation_failed", "too_long", "pool_full", "missing_part", "context_gone", "other_licence"),
}
"""These, and those that may say more of this machine and its settings than of the peer."""
WEIGHT = {"scorer_abuse": FEWEST_REFUSALS // 2, "poisonous": FEWEST_REFUSALS // 2}
"""A refusal counts as one group, also that of a file, except for those that cost the reader seconds each: two of them
within the window are enough. One is not: an honest model may have written endless loops for a round, and its file is
given up for what it costs.

`poisonous` is what rows of earlier versions call `scorer_abuse`."""


@dataclass(frozen=True)
class Sentence:
    """Says that nothing of the peer is read in rounds before `until`; then it is on probation for as long again."""

    until: int
    length: int


class Quarantine:
    """Keeps what this node has seen of each peer, and decides from it which peers are not read for now."""

    def __init__(self, rounds: int) -> None:
        """`rounds`: of a first quarantine; 0: there is none."""
        self._rounds = rounds
        self._window: dict[int, dict[str, tuple[int, int]]] = {}
        """Round -> peer -> groups accepted, refused."""
        self._sentences: dict[str, Sentence] = {}
        self._held: list[str] = []

    def observe(
        self, round_: int, accepted: Mapping[str, int], refused: Mapping[str, Mapping[str, int]]
    ) -> tuple[list[str], list[str]]:
        """Take note of one more round, in which these groups were accepted, and refused by peer and reason.

        Returns:
            The peers that are quarantined from the next round on, and those that are free again from it on.
        """
        if not self._rounds:
            return [], []
        faults = {peer: _weighed(reasons) for peer, reasons in refused.items() if peer != OTHERS}
        seen = self._window.setdefault(round_, {})  # by a stage before
        for peer in {*accepted, *faults}:
            taken, refused_before = seen.get(peer, (0, 0))
            seen[peer] = taken + accepted.get(peer, 0), refused_before + faults.get(peer, 0)
        self._window = {r: seen for r, seen in self._window.items() if r > round_ - WINDOW}
        offenders, before = self._sentence(round_ + 1), self._held
        self._held = self.held(round_ + 1)
        self._sentences = {peer: s for peer, s in self._sentences.items() if round_ + 1 < s.until + s.length}
        return offenders, [peer for peer in before if peer not in self._held]

    def holds(self, peer: str, round_: int) -> bool:
        """Tells whether the peer's files of this round stay unread."""
        sentence = self._sentences.get(peer)
        return sentence is not None and round_ < sentence.until

    def held(self, round_: int) -> list[str]:
        """Returns all that `holds` is true of, sorted."""
        return sorted(peer for peer in self._sentences if self.holds(peer, round_))

    def record(self, peer: str) -> tuple[int, int]:
        """Returns groups of the peer that were accepted and refused within the window."""
        seen = [counts[peer] for counts in self._window.values() if peer in counts]
        return sum(accepted for accepted, _ in seen), sum(refused for _, refused in seen)

    def clean(self) -> frozenset[str]:
        """Returns peers of which something was accepted and nothing refused within the window."""
        peers = {peer for counts in self._window.values() for peer in counts}
        records = {peer: self.record(peer) for peer in peers}
        return frozenset(peer for peer, (accepted, refused) in records.items() if accepted and not refused)

    def _sentence(self, next_round: int) -> list[str]:
        latest = self._window[next_round - 1]
        offenders = sorted(peer for peer in latest if not self.holds(peer, next_round) and self._offends(peer))
        for peer in offenders:
            before = self._sentences.get(peer)
            length = min(2 * before.length, LONGEST * self._rounds) if before else self._rounds
            self._sentences[peer] = Sentence(next_round + length, length)
            for counts in self._window.values():  # on probation only what comes then counts
                counts.pop(peer, None)
        return offenders

    def _offends(self, peer: str) -> bool:
        accepted, refused = self.record(peer)
        return refused >= FEWEST_REFUSALS and refused > HIGHEST_RATE * (accepted + refused)


def _weighed(reasons: Mapping[str, int]) -> int:
    return sum(count * WEIGHT.get(reason, 1) for reason, count in reasons.items() if reason not in NO_FAULT)
