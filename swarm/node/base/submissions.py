"""Finds the rewards of a round that count: well formed, of the place where they lie, and with rollouts beside them.

A name in a folder costs nothing. So each file is read, until it is a reward, and then no more; and of a node that was
never seen to publish a round, the rollouts of that round must lie there as well. Of a node that was, the reward is
enough: its rollouts may be late, cleaned away, or have somebody else's object in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice

from swarm.errors import StoreError
from swarm.records.files import read_each_signed
from swarm.records.listing import NodeFiles
from swarm.store.base import Entry
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import RewardFile

MOST_READ = 512
"""Files of one stage that are read in one look, those of nodes that have published before first."""
TRACES = 5
"""A clock that was kept by the rules stands no more than so many rounds after a reward, one that came late included."""
MOST_PROVEN = 4096
"""Nodes that are remembered."""


def has_submitted(run: Run, key: RoundKey, node: str) -> bool:
    """Tells whether a node's reward file is one, and its own. Blocking."""
    return are_submitted(run, key, [node])[node]


def are_submitted(run: Run, key: RoundKey, nodes: Sequence[str]) -> dict[str, bool]:
    """Tells of each of some nodes what has_submitted tells. Blocking."""
    read = read_each_signed(run, [keys.reward(key, node) for node in nodes], RewardFile)
    said = [one and (one[0].peer_id, one[0].round, one[0].stage) for one in read]
    return {node: of_node == (node, *key) for node, of_node in zip(nodes, said, strict=True)}


def is_expected(run: Run, node: str, expected: frozenset[str]) -> bool:
    """Tells whether a node is one of those that are expected by name or by the key that they sign with; of none, all
    are."""
    return not expected or node in expected or run.trust.key_of(node) in expected


class Submissions:
    """Keeps which rewards were found so far, and which nodes have proven that they publish."""

    def __init__(
        self, run: Run, now: Callable[[], float] = lambda: 0.0, expected: frozenset[str] = frozenset()
    ) -> None:
        """Make one that has seen nothing.

        Args:
            now: monotonic seconds; who looks once needs none.
            expected: names or keys of the workers that alone say where the clock has come to; none: all do.
        """
        self._run = run
        self._expected = expected
        self._files = NodeFiles(run.store, now)
        self._read: dict[RoundKey, dict[str, tuple[str, bool]]] = {}
        """Node -> the tag of its reward file, and whether that is one."""
        self._counted: dict[RoundKey, tuple[Mapping[str, Entry], frozenset[str]]] = {}
        """Listings in which nothing was left to find out, each with what counts of it."""
        self._proven: dict[str, None] = {}

    @property
    def proven(self) -> Set[str]:
        """Returns nodes that were seen to have published a round: a reward that is one, and rollouts."""
        return self._proven.keys()

    def of(self, key: RoundKey, max_age: float = 0.0) -> frozenset[str]:
        """Returns the nodes with a reward that counts for this round and stage. Blocking. Raises StoreError.

        Args:
            max_age: seconds for which a listing is good enough.
        """
        known = self._read.setdefault(key, {})
        settled = {node for node, (_, is_one) in known.items() if is_one}
        known_nodes = {*islice(self._proven, MOST_READ), *islice(known, MOST_READ)}
        found = self._files.find(keys.rewards(key), known_nodes, tags=True, max_age=max_age, settled=settled)
        listed, counted = self._counted.get(key, ({}, frozenset[str]()))
        if found is listed:
            return counted
        rewards = self._rewards(key, found, settled)
        if strangers := rewards - self.proven:
            for node in sorted(self._with_rollouts(key, strangers))[: MOST_PROVEN - len(self._proven)]:
                self._proven[node] = None
        counted = frozenset(rewards & self.proven)
        if len(counted) == len(found):
            self._counted[key] = found, counted
        return counted

    def lie_before(self, round_: int) -> bool:
        """Tells whether a reward of who has a say lies in one of the TRACES rounds before this one. Blocking."""
        rounds = range(max(0, round_ - TRACES), round_)
        with suppress(StoreError):
            return any(self._with_a_say(self.of(RoundKey(before))) for before in reversed(rounds))
        return False

    def _with_a_say(self, nodes: Iterable[str]) -> bool:
        return any(is_expected(self._run, node, self._expected) for node in nodes)

    def forget(self, key: RoundKey) -> None:
        """Forgets what was read of a round, but not who has proven himself by it."""
        self._read.pop(key, None)
        self._counted.pop(key, None)

    def forget_before(self, round_: int) -> None:
        self._read = {key: nodes for key, nodes in self._read.items() if key.round >= round_}
        self._counted = {key: counted for key, counted in self._counted.items() if key.round >= round_}

    def _rewards(self, key: RoundKey, found: Mapping[str, Entry], settled: Set[str]) -> Set[str]:
        """Returns the nodes whose reward file is one: what was one once stays one."""
        known = self._read[key]
        unsettled = found.keys() - settled
        new = [node for node in unsettled if known.get(node, (None, False))[0] != found[node].tag]
        read = sorted(new, key=lambda node: (node not in self._proven, node))[:MOST_READ]
        with suppress(StoreError):  # they cannot be read now
            known |= {node: (found[node].tag, is_one) for node, is_one in are_submitted(self._run, key, read).items()}
        return (found.keys() & settled) | {node for node in unsettled if known.get(node, ("", False))[1]}

    def _with_rollouts(self, key: RoundKey, nodes: Set[str]) -> Set[str]:
        try:
            return nodes & self._files.find(keys.rollouts(key), sorted(nodes)[:MOST_READ]).keys()
        except StoreError as error:  # what stands where they should lie is nobody's fault who published
            return nodes if error.blocked else frozenset()
