"""Drawing: which of its peers' groups a node looks at, in which order, and when it has found enough. Pure.

    peers with a file, S slots each ─by rank─▶ (peer, slot) after (peer, slot) ─▶ looked at ─▶ the first J informative

SAPO samples J groups uniformly from those of all peers that have an advantage. The first J such groups of a uniformly
random order of all groups are that sample, and what comes after them in this order need not be fetched, regenerated or
scored. So what a round costs follows from J, and not from the number of peers. The order is that of a hash of seed,
node, round, peer and slot: the same on every machine, and who else is there changes nothing between two groups.

How many groups a file holds is known once it is read. So what is ordered are slots, S of each peer, where S is the most
that a node of the same settings publishes, and J at least; a slot that turns out to hold nothing is passed over, which
leaves the order of the others uniform. Of a file with more groups the first S take part: no question is drawn otherwise
than another. So in a swarm of equal settings the sample is that of all groups; where splits differ, a peer that
publishes more than S groups counts as one with S.

What the sample says of the pool. Looking ends with the r-th informative group, r = J, but 2 at least. Among all slots
but that last one, the share of any kind of group is what it is in the whole pool, on average: without bias, since
(r - 1) / (k - 1) of k slots is the estimate of inverse sampling (Haldane, "On a method of estimating frequencies",
Biometrika 33 (1945)). Where all slots had to be looked at, their groups are counted, and nothing is estimated. Where
one peer may give no more than some of the J, looking goes on past its further ones, and the estimate is only near that.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Generic, NamedTuple, TypeVar

from swarm.algo.advantages import is_informative
from swarm.algo.sampling import PeerQuota
from swarm.algo.seeds import purpose_text
from swarm.types import ScoredGroup

FEWEST = 2
"""Informative groups that are looked for in any case: one alone says nothing of how many there are."""

Source = TypeVar("Source", bound=tuple[Any, ...] | str)
Results = Callable[[Source, int], "ScoredGroup | NoGroup | None"]
"""What is known of a slot of a source: its verified group, that it holds nothing, or None: nothing is known yet."""


class NoGroup:
    """Marks a slot without a group, or without one that may be learned from."""


NO_GROUP = NoGroup()
Ranks = Callable[[Source], Sequence[int]]
"""Rank of each slot of a source that takes part: a lower one comes first."""
_PER_HASH = 8
"""Ranks of 64 bits in one digest."""
_ALL = -1
"""Stands for all slots of a source, at the rank of the first of them."""


class DrawnSample(NamedTuple):
    """Holds the groups that were looked at, in the order in which they were drawn."""

    groups: list[ScoredGroup]
    """The verified groups, copies left out."""
    slots: int
    """How many slots were looked at, those with nothing in them included."""
    of: int
    """How many slots there are."""
    enough: bool
    """Looking ended with the last of `groups`, the r-th informative one."""
    complete: bool = True
    """Nothing had to be passed over because it was not known in time."""

    @property
    def informative(self) -> list[ScoredGroup]:
        """Returns the groups with an advantage."""
        return [scored for scored in self.groups if is_informative(scored.rewards)]

    @property
    def judged(self) -> list[ScoredGroup]:
        """Returns the groups that the pool is judged by: where looking ended early, all but the group with which it
        did."""
        return self.groups[:-1] if self.enough and self.slots < self.of else self.groups

    @property
    def pool_groups(self) -> int:
        """Returns groups in the whole pool: counted where all slots were looked at, else estimated."""
        return max(self._in_the_pool(len(self.judged)), len(self.groups))

    @property
    def pool_informative(self) -> int:
        """Estimates how many groups of the pool have an advantage."""
        judged = sum(is_informative(scored.rewards) for scored in self.judged)
        return max(self._in_the_pool(judged), len(self.informative))

    def _in_the_pool(self, judged: int) -> int:
        slots = self.slots - (len(self.groups) - len(self.judged))
        return round(self.of * judged / slots) if slots else 0


EMPTY = DrawnSample([], 0, 0, enough=False)


class Drawing(Generic[Source]):
    """One draw of one round; the same sources and ranks give the same order."""

    def __init__(
        self,
        sources: Iterable[Source],
        ranks: Ranks[Source],
        count: int | None,
        originals: Callable[[list[ScoredGroup]], list[ScoredGroup]] = list,
        most_of_peer: int | None = None,
    ) -> None:
        """Make a draw of which nothing is known.

        Args:
            sources: who has a file, each once.
            ranks: of the slots of a source that take part.
            count: J; None: everything is to be looked at.
            originals: of groups in the order drawn those that are nobody else's, word for word.
            most_of_peer: informative groups of one peer that count; None: all do.
        """
        self._ranks = {source: ranks(source) for source in sources}
        self._slots = sum(map(len, self._ranks.values()))
        self._order: list[tuple[Source, int]] = []
        """The slots that were walked so far."""
        self._rest = [(min(of_slots), source, _ALL) for source, of_slots in self._ranks.items() if of_slots]
        """A heap of the others by rank: of many few are ever walked."""
        heapify(self._rest)
        self._enough = math.inf if count is None else max(count, FEWEST)
        self._originals = originals
        self._most_of_peer = most_of_peer

    def wanted(self, results: Results[Source], slow: Container[tuple[Source, int]] = ()) -> list[tuple[Source, int]]:
        """Returns the unknown slots to look at next, in their order: none once enough is found, or all is known.

        No slot is among them that the sample may end before, whatever the others hold.

        Args:
            slow: slots that are not known soon: more is looked at as if they held nothing.
        """
        return self._walk(results, lambda place: place not in slow)[1]

    def sample(self, results: Results[Source]) -> DrawnSample:
        """Returns the groups known by now, up to the slot with which enough was found; it passes over unknown ones."""
        seen, unknown, slots = self._walk(results)
        enough = self._counting(seen, PeerQuota(self._most_of_peer)) >= self._enough
        return DrawnSample(seen, slots - len(unknown), self._slots, enough, not unknown)

    def _walk(
        self, results: Results[Source], counts: Callable[[tuple[Source, int]], bool] = lambda _: False
    ) -> tuple[list[ScoredGroup], list[tuple[Source, int]], int]:
        """Returns the originals, what is unknown, and how many slots that makes; of those unknown each that `counts`
        is taken for found."""
        seen: list[ScoredGroup] = []
        unknown: list[tuple[Source, int]] = []
        slots, found, hoped = 0, 0, 0
        quota = PeerQuota(self._most_of_peer)
        for source, slot in self._in_order():
            slots += 1
            result = results(source, slot)
            if result is None:
                unknown.append((source, slot))
                hoped += counts((source, slot))
            elif isinstance(result, ScoredGroup):
                seen.append(result)
                found += self._counting([result], quota)
            if found + hoped >= self._enough:
                seen = self._originals(seen)
                quota = PeerQuota(self._most_of_peer)
                found = self._counting(seen, quota)
            if found + hoped >= self._enough:
                break
        return self._originals(seen), unknown, slots

    def _in_order(self) -> Iterator[tuple[Source, int]]:
        """Yields all slots by rank, source and slot."""
        yield from self._order
        while self._rest:
            _, source, slot = heappop(self._rest)
            if slot == _ALL:
                for place, rank in enumerate(self._ranks[source]):
                    heappush(self._rest, (rank, source, place))
            else:
                self._order.append((source, slot))
                yield source, slot

    @staticmethod
    def _counting(groups: Iterable[ScoredGroup], quota: PeerQuota) -> int:
        """Counts the groups that are looked for: those with an advantage that the quota takes."""
        return sum(is_informative(scored.rewards) and quota.takes(scored) for scored in groups)


def random_ranks(seed: int, *purpose: str | int) -> Callable[[str, int], list[int]]:
    """Returns a function that gives the random ranks of a name's first slots, for one purpose such as ("external",
    node, round)."""
    key = hashlib.blake2b(purpose_text(seed, *purpose).encode(), digest_size=32).digest()

    def ranks(name: str, slots: int) -> list[int]:
        blocks = range(0, slots, _PER_HASH)
        hashed = [hashlib.blake2b(f"{name}\x1f{block}".encode(), key=key).digest() for block in blocks]
        return [*struct.unpack_from(f">{slots}Q", b"".join(hashed))]

    return ranks
