"""Follows the rows of a run, and hands each to a sink once, those of a node in their order."""

from __future__ import annotations

from collections.abc import Iterable

from swarm.plugins.sinks.base import Sink
from swarm.plugins.sinks.values import values_of
from swarm.records.growing import GrowingLines
from swarm.records.listing import nodes_with_logs
from swarm.records.rows import one_per_stage
from swarm.records.table import parse_row
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.metrics import MetricsRow

MOST_NODES = 256
"""Whose rows are handed over; a folder may have any number of names."""


class Feed:
    """Owns how far the rows of each node have been read.

    A node that redoes a round after a kill writes its row again: of those that are read together the last counts, and
    what a sink has already stays as it is.
    """

    def __init__(self, run: Run, sink: Sink) -> None:
        self._run = run
        self._sink = sink
        self._growing: dict[str, GrowingLines] = {}
        self._last: dict[str, RoundKey] = {}
        self.rows = 0
        """Handed over so far."""
        self.left_out: set[str] = set()
        """Nodes beyond MOST_NODES."""

    def pump(self) -> bool:
        """Hand over what is new, and have it kept; whether there was anything, and so may be more.

        Raises:
            StoreError: the place cannot be read.
            Exception: whatever the sink raises. Begin with another feed then: rows that were not kept come again.
        """
        anything = False
        for node in nodes_with_logs(self._run):
            if node in self._growing or len(self._growing) < MOST_NODES:
                anything |= self._pump(node)
            else:
                self.left_out.add(node)
        return anything

    def _pump(self, node: str) -> bool:
        growing = self._growing.setdefault(node, GrowingLines(self._run.store, keys.metrics(node)))
        anything = False
        for part in growing.look():
            anything |= bool(part.records)
            rows = (parse_row(line, MetricsRow) for line in part.records)
            self._hand_over(node, one_per_stage(row for row in rows if row))
            self._sink.flush()
        return anything

    def _hand_over(self, node: str, rows: Iterable[MetricsRow]) -> None:
        for row in rows:
            if node not in self._last:
                self._last[node] = self._sink.written(node)
            if row.key > self._last[node]:
                self._sink.row(node, row.key, row.timestamp, values_of(row))
                self._last[node] = row.key
                self.rows += 1
