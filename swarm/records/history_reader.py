"""Reads the history of a run on from where the look before ended: of the past nothing is read again."""

from __future__ import annotations

from collections.abc import Set

from swarm.records.growing import Follower
from swarm.records.history import MOST_HELD, History, HistoryRoom, NodeHistory
from swarm.records.listing import nodes_with_logs
from swarm.store.run import Run
from swarm.wire import keys


class HistoryReader:
    """Owns how far the rows of each node have been read.

    reader = HistoryReader(run)
    history = reader.look()          # a second look costs what has come since
    history["anna"].column("my_reward")
    """

    def __init__(self, run: Run, only: Set[str] = frozenset()) -> None:
        """`only`: the nodes that are looked at; empty: all."""
        self._run = run
        self._only = only
        self._room = HistoryRoom()
        self._epochs: dict[str, int] = {}
        self._followers: dict[str, Follower[NodeHistory]] = {}
        self._history: dict[str, NodeHistory] = {}

    def look(self) -> History:
        """Returns the history by now; the same objects as before, extended. Blocking.

        Raises:
            StoreError: the place itself fails.
        """
        for node in nodes_with_logs(self._run):
            if not self._only or node in self._only:
                self._room.left = MOST_HELD - sum(map(len, self._history.values()))
                self._history[node] = self._follower(node).look()
        return self._history

    def _follower(self, node: str) -> Follower[NodeHistory]:
        if node not in self._followers:
            self._followers[node] = Follower(self._run.store, keys.metrics(node), lambda: self._start(node))
        return self._followers[node]

    def _start(self, node: str) -> NodeHistory:
        self._epochs[node] = self._epochs.get(node, 0) + 1
        return NodeHistory(self._room, self._epochs[node])
