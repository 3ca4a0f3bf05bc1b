"""Whose files are read: of too many names (Selection), in which order (PriorityLock), whose not for now (Quarantine);
and what is counted of them (IntakeCounts).

Selection: any number of names may lie in one stage. Known peers first, those that have a clean record before those that
are merely alive, up to a number of their own; then strangers, as far as they find room. So a flood of names keeps
nobody out who is known, and costs no more than a full swarm would. Equals come in a random order, another one for every
stage: whoever registers a thousand names keeps a newcomer waiting, but not for ever.

IntakeCounts counts what came in from peers between two metrics rows, and fills their columns; the numbers are bounded.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import anyio

from swarm.types import RoundKey
from swarm.wire.metrics import MetricsRow


class Choice(NamedTuple):
    """Says whose files one listing has chosen to be read."""

    read: list[str]
    """To be read, in this order."""
    passed_over: list[str]
    """Known peers for whom there is no room: nobody is to wait for them."""
    flood: int
    """Names beyond the limit; said once per stage."""


def random_order(secret: bytes, key: RoundKey) -> Callable[[str], bytes]:
    """Returns an order of names for one stage that only the one who knows the secret can foresee."""
    stage = b"%d %d " % key
    return lambda name: hashlib.blake2b(stage + name.encode(), key=secret, digest_size=8).digest()


@dataclass
class Selection:
    """Chooses whose files of one stage are read, over any number of listings."""

    most: int
    """Known peers, and names in all as long as strangers are let in."""
    order: Callable[[str], bytes] = str.encode
    """Who of equals gets in: the first by name, or as `random_order` has it. They are read by name in any case."""
    taken: set[str] = field(default_factory=set)
    """Chosen or passed over."""
    flooded: bool = False
    """There was no room for a stranger: no more are let in."""
    _known: int = 0

    def choose(self, names: Set[str], clean: Set[str], live: Set[str]) -> Choice:
        """Whom to read of the names that are there, each once over all calls."""
        known, room = [*((names & (clean | live)) - self.taken)], max(0, self.most - self._known)
        if len(known) > room:
            known.sort(key=lambda name: (name not in clean, self.order(name)))
        read, passed_over = sorted(known[:room], key=lambda name: (name not in clean, name)), known[room:]
        self._known += len(read)
        self.taken.update(known)
        strangers, flood = ([], 0) if self.flooded else self._strangers(names)
        return Choice(read + strangers, passed_over, flood)

    def _strangers(self, names: Set[str]) -> tuple[list[str], int]:
        left = names - self.taken
        strangers = sorted(heapq.nsmallest(max(0, self.most - len(self.taken)), left, key=self.order))
        self.taken.update(strangers)
        self.flooded = len(strangers) < len(left)
        return strangers, len(left) - len(strangers)


class PriorityLock:
    """A lock for one at a time: the lowest rank gets it next, and among equals who asked first.

    waits for   the one at work to end, or to let others go first between two parts of its work
    unblocks    the waiting one of the lowest rank
    """

    def __init__(self) -> None:
        self._taken = False
        self._line: list[tuple[int, int, anyio.Event]] = []
        self._numbers = count()

    @asynccontextmanager
    async def hold(self, rank: int) -> AsyncIterator[None]:
        """Wait for a turn; it ends with the block."""
        await self._take(rank)
        try:
            yield
        finally:
            self._give()

    async def let_others_first(self, rank: int) -> None:
        """Lets those of a lower rank go first, within a turn; if `rank` is worse than it was, so do more of them."""
        if self._line and self._line[0][0] < rank:
            self._give()
            with anyio.CancelScope(shield=True):  # the block that holds the turn ends by giving it back
                await self._take(rank)
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def _take(self, rank: int) -> None:
        if not self._taken:
            self._taken = True
            return
        called = anyio.Event()
        place = (rank, next(self._numbers), called)
        heapq.heappush(self._line, place)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self._give()
            else:
                self._line.remove(place)
                heapq.heapify(self._line)
            raise

    def _give(self) -> None:
        if self._line:
            heapq.heappop(self._line)[2].set()
        else:
            self._taken = False


WINDOW = 10
"""Rounds that are looked back upon."""
FEWEST_REFUSALS = 4
"""Within the window, for a peer to be judged at all: one torn or late file is no offence."""
HIGHEST_RATE = 0.5
"""Share of refused groups above which a peer is quarantined."""
NOT_ITS_OWN = frozenset({"unsigned", "bad_signature", "other_key", "pin_unreadable", "not_pinned", "not_begun"})
"""Refusals of files that anybody may have put there in the peer's name: nobody is to be quarantined by a stranger."""
NO_FAULT = NOT_ITS_OWN | {
    *("unreadable", "generation_failed", "too_long", "pool_full", "missing_part", "context_gone", "other_licence"),
}
"""These, and those that may say more of this machine and its settings than of the peer."""
WEIGHT = {"scorer_abuse": FEWEST_REFUSALS // 2}
"""A refusal counts as one group, also that of a file, except for those that cost the reader seconds each: two of them
within the window are enough. One is not: an honest model may have written endless loops for a round, and its file is
given up for what it costs."""


class Quarantine:
    """Which peers are not read for now. Decided from counts per round alone: the same rows, the same answer.

        accepted, refused groups of WINDOW rounds ─▶ mostly refused? ─▶ quarantine ─▶ free, its record empty

    Rounds are those of the node that judges, never wall time. The metrics rows hold all that goes in here, so a node
    that comes back is told them again and knows what it knew: a kill sets no vandal free.
    """

    def __init__(self, rounds: int) -> None:
        """`rounds`: of a quarantine; 0: there is none."""
        self._rounds = rounds
        self._window: dict[int, dict[str, tuple[int, int]]] = {}
        """Round -> peer -> groups accepted, refused."""
        self._until: dict[str, int] = {}
        """Peer -> the first round of which its files are read again."""

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
        offenders = self._sentence(round_ + 1)
        freed = sorted(peer for peer in self._until if not self.holds(peer, round_ + 1))
        for peer in freed:
            del self._until[peer]
        return offenders, freed

    def holds(self, peer: str, round_: int) -> bool:
        """Tells whether the peer's files of this round stay unread."""
        return round_ < self._until.get(peer, 0)

    def held(self, round_: int) -> list[str]:
        """Returns all that `holds` is true of, sorted."""
        return sorted(peer for peer in self._until if self.holds(peer, round_))

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
            self._until[peer] = next_round + self._rounds
            for counts in self._window.values():  # only what comes afterwards counts
                counts.pop(peer, None)
        return offenders

    def _offends(self, peer: str) -> bool:
        accepted, refused = self.record(peer)
        return refused >= FEWEST_REFUSALS and refused > HIGHEST_RATE * (accepted + refused)


def _weighed(reasons: Mapping[str, int]) -> int:
    return sum(count * WEIGHT.get(reason, 1) for reason, count in reasons.items() if reason not in NO_FAULT)


OTHERS = "*"
"""Stands for all peers that are not named; no node is called so."""
MOST_NAMED = 64
"""Peers that one row names; of a thousand strangers most are worth a number alone."""


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
