"""Lists the nodes that have submitted a reward for a round; checks signatures where they are on."""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.records.files import read_reward
from swarm.records.listing import nodes_in
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys


def has_submitted(run: Run, key: RoundKey, node: str) -> bool:
    """Whether a node's reward file is one, and its own. Blocking."""
    try:
        reward = read_reward(run, key, node)
    except ProtocolError:
        return False
    return reward is not None and (reward.peer_id, reward.round, reward.stage) == (node, *key)


class Submissions:
    """Rewards of rounds, by name alone; where signatures are asked for each file is looked into, once if it is good."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._good: set[tuple[RoundKey, str]] = set()

    def of(self, key: RoundKey) -> frozenset[str]:
        """The nodes with a reward for this round and stage. Blocking. Raises StoreError."""
        nodes = nodes_in(self._run.store, keys.rewards(key))
        if not self._run.trust.asks:
            return frozenset(nodes)
        return frozenset(node for node in nodes if self._is_good(key, node))

    def forget_before(self, round_: int) -> None:
        self._good = {known for known in self._good if known[0].round >= round_}

    def _is_good(self, key: RoundKey, node: str) -> bool:
        if (key, node) not in self._good and has_submitted(self._run, key, node):
            self._good.add((key, node))
        return (key, node) in self._good
