"""Follows the rows of a run, and hands each to a sink once, those of a node in their order, as finite numbers.

Columns keep their names (docs/metrics.md); `task_rewards` and its like become `task_rewards/TASK`, later stages
`stage_1/...`. Names of strangers are made harmless, and bounded in length and number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from swarm.plugins.sinks.base import Sink
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
LEFT_OUT = frozenset({"timestamp", "round", "stage", "schema_version"})
"""Columns that say where a row stands, not what came of it."""
MOST_ENTRIES = 64
"""Entries of one column, the first by name."""
LONGEST_NAME = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


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


def values_of(row: MetricsRow) -> dict[str, float]:
    """Name -> number; texts, lists and tables in tables are left out, as is what is no finite number."""
    prefix = f"stage_{row.stage}/" if row.stage else ""
    found: dict[str, float] = {}
    for column in row.__struct_fields__:
        value = getattr(row, column)
        if column in LEFT_OUT:
            continue
        if isinstance(value, dict):
            named = {name_of(name): one for name, one in sorted(value.items())[:MOST_ENTRIES]}
            found |= {f"{prefix}{column}/{name}": float(one) for name, one in named.items() if _is_number(one)}
        elif _is_number(value):
            found[f"{prefix}{column}"] = float(value)
    return found


def name_of(text: str) -> str:
    """Letters, digits, `_`, `.` and `-`, at least one and at most LONGEST_NAME."""
    return _UNSAFE.sub("_", text[:LONGEST_NAME]) or "_"


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float) and abs(value) < 1e300 and math.isfinite(value)
