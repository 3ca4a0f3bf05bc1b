"""Selection: whose files of one stage are read, where any number of names may lie. Pure.

Known peers first, those that have a clean record before those that are merely alive, up to a number of their own; then
strangers, as far as they find room. So a flood of names keeps nobody out who is known, and costs no more than a full
swarm would. Equals come in a random order, another one for every stage: whoever registers a thousand names
keeps a newcomer waiting, but not for ever.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from swarm.types import RoundKey


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
    """From now on only known peers are looked for, by their names."""
    _known: int = 0

    def choose(self, names: Set[str], clean: Set[str], live: Set[str]) -> Choice:
        """Whom to read of the names that are there, each once over all calls."""
        known = sorted((names & (clean | live)) - self.taken, key=lambda name: (name not in clean, self.order(name)))
        room = max(0, self.most - self._known)
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
