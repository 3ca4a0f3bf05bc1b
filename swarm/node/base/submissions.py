"""Which nodes have submitted a reward for a round, and say so themselves."""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.records.read import read_reward
from swarm.store.folder.fetch import list_nodes
from swarm.types import RoundKey
from swarm.wire.layout import Layout


def has_submitted(layout: Layout, key: RoundKey, node: str) -> bool:
    """Whether a node's reward file is one, and its own. Blocking."""
    try:
        reward = read_reward(layout, key, node)
    except ProtocolError:
        return False
    return reward is not None and (reward.peer_id, reward.round, reward.stage) == (node, *key)


class Submissions:
    """Rewards of rounds, by name alone; where signatures are asked for each file is looked into, once if it is good."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._good: set[tuple[RoundKey, str]] = set()

    def of(self, key: RoundKey) -> frozenset[str]:
        """The nodes with a reward for this round and stage. Blocking. Raises StoreError."""
        nodes = list_nodes(self._layout.rewards_of(key))
        if not self._layout.trust.asks:
            return frozenset(nodes)
        return frozenset(node for node in nodes if self._is_good(key, node))

    def forget_before(self, round_: int) -> None:
        self._good = {known for known in self._good if known[0].round >= round_}

    def _is_good(self, key: RoundKey, node: str) -> bool:
        if (key, node) not in self._good and has_submitted(self._layout, key, node):
            self._good.add((key, node))
        return (key, node) in self._good
