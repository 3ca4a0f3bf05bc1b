"""Metrics rows: which a node has, as written and one per round.

The folder says whose a row is, whatever the row says. A node that resumed may write a round again: the last row counts.
A row whose reward is no share of the full one counts for nothing: one number without bounds would be the whole of a
sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec

from swarm.errors import StoreError
from swarm.records.growing import MOST_READS, Growing, lines_of, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import SCHEMA_VERSION, Count, JudgedRow, MetricsRow

MOST_ROWS = 100_000
"""Rows of one node that are held; rounds, that is."""


class Glance(msgspec.Struct):
    """The few columns that the progress of a run needs, in a quarter of the time that all of them take, and without
    their memory (16,000 rows: 60 ms against 240 ms and 68 MB)."""

    round: Count
    my_reward: float
    timestamp: float = 0.0
    cumulative_reward: float = 0.0
    refused_files: dict[str, int] = {}
    refused_by_peer: dict[str, dict[str, int]] = {}
    false_claims: dict[str, int] = {}
    quarantined: list[str] = []
    external_unverified: int = 0
    clock: str = "coordinator"
    schema_version: int = SCHEMA_VERSION


Form = TypeVar("Form", Glance, MetricsRow, JudgedRow)


def parse_row(line: bytes, form: type[Form]) -> Form | None:
    """One line as a row, or None for anything else, and for a version that is not known."""
    row = parse_line(line, form)
    return row if row and row.schema_version == SCHEMA_VERSION else None


class Rows(NamedTuple):
    """What a metrics file holds."""

    rows: list[MetricsRow]
    """As written."""
    junk: int
    """Whole lines that are no metrics row."""
    torn: bool
    """The last line has no newline: it is being written, or its writer was killed."""


def read_rows(run: Run, node: str, most_reads: int | None = MOST_READS) -> Rows:
    """All rows of one node, at most MOST_ROWS of them and those of one look. A missing file has none.

    Args:
        most_reads: None: to the end, however many rows that are.
    """
    rows: list[MetricsRow] = []
    junk, growing = 0, Growing(run.store, keys.metrics(node))
    for part in growing.look(most_reads):
        found = [row for line in part.records if (row := parse_row(line, MetricsRow))]
        junk += len(part.records) - len(found)
        rows += found
        if most_reads and len(rows) >= MOST_ROWS:
            del rows[MOST_ROWS:]
            break
    return Rows(rows, junk, growing.torn)


def read_own_rows(run: Run, node: str) -> Rows:
    """As read_rows, but however many there are: a node that goes on must not miss the last of its own.

    They are brought to disk first, for what follows is built on them: a kill may have come between a row and its sync.
    """
    with suppress(StoreError):
        run.store.sync(keys.metrics(node))
    return read_rows(run, node, most_reads=None)


def read_metrics(run: Run) -> dict[str, list[MetricsRow]]:
    """Node -> its rows that count, one per round in the order of rounds; nodes that have any, by name."""
    found = {node: one_per_round(read_rows(run, node).rows) for node in nodes_with_logs(run)}
    return {node: rows for node, rows in found.items() if rows}


def one_per_round(rows: Iterable[MetricsRow]) -> list[MetricsRow]:
    """The rows that count, in the order of rounds."""
    last = {row.round: row for row in rows if counts(row)}
    return [last[number] for number in sorted(last)]


def counts(row: Glance | MetricsRow) -> bool:
    """Whether its reward is a share of the full one."""
    return 0 <= row.my_reward <= 1


def read_judged(run: Run) -> list[JudgedRow]:
    """The judge's rows by round, node and question. Judged again after a crash, the last row counts."""
    rows = (parse_row(line, JudgedRow) for line in lines_of(run.store, keys.JUDGED))
    last = {(row.round, row.node_id, row.question_id): row for row in rows if row}
    return [last[key] for key in sorted(last)]
