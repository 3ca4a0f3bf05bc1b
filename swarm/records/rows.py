"""Metrics rows: which a node has, as written and one per round.

The folder says whose a row is, whatever the row says. A node that resumed may write a round again: the last row counts.
A row whose reward is no share of the full one counts for nothing: one number without bounds would be the whole of a
sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from swarm.errors import StoreError
from swarm.records.growing import MOST_READS, Growing, lines_of, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import SCHEMA_VERSION, Count, JudgedRow, MetricsRow

MOST_ROWS = 100_000
"""Rows of one node that are held; rounds, that is."""


class AnyRow(Protocol):
    """What all forms of a metrics row have."""

    round: Count
    my_reward: float
    schema_version: int


Form = TypeVar("Form", bound=AnyRow)


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


class Batch(NamedTuple, Generic[Form]):
    """Rows that are new."""

    rows: list[Form]
    restarted: bool
    """They are from the beginning of another file: those given before are no longer there."""


class RowFollower(Generic[Form]):
    """The rows of one node's metrics file, each once, over any number of looks."""

    def __init__(self, run: Run, node: str, form: type[Form]) -> None:
        self.junk = 0
        """Whole lines that are no metrics row of a known version."""
        self._growing = Growing(run.store, keys.metrics(node))
        self._decoder = msgspec.json.Decoder(form)

    @property
    def torn(self) -> bool:
        """The last line has no newline: it is being written, or its writer was killed."""
        return self._growing.torn

    def look(self, most_reads: int | None = MOST_READS) -> Iterator[Batch[Form]]:
        """What is new, part by part."""
        for part in self._growing.look(most_reads):
            if part.restarted:
                self.junk = 0
            rows = [row for line in part.records if (row := self._row(line)) is not None]
            self.junk += len(part.records) - len(rows)
            yield Batch(rows, part.restarted)

    def _row(self, line: bytes) -> Form | None:
        try:
            row = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return row if row.schema_version == SCHEMA_VERSION else None


class Rows(NamedTuple):
    """What a metrics file holds."""

    rows: list[MetricsRow]
    """As written."""
    junk: int
    """Whole lines that are no metrics row."""
    torn: bool
    """The last line has no newline: it is being written, or its writer was killed."""


def read_rows(run: Run, node: str) -> Rows:
    """All rows of one node, at most MOST_ROWS of them and those of one look. A missing file has none."""
    follower = RowFollower(run, node, MetricsRow)
    rows = (row for batch in follower.look() for row in batch.rows)
    return Rows(list(islice(rows, MOST_ROWS)), follower.junk, follower.torn)


def read_own_rows(run: Run, node: str) -> Rows:
    """As read_rows, but however many there are: a node that goes on must not miss the last of its own.

    They are brought to disk first, for what follows is built on them: a kill may have come between a row and its sync.
    """
    with suppress(StoreError):
        run.store.sync(keys.metrics(node))
    follower = RowFollower(run, node, MetricsRow)
    rows = [row for batch in follower.look(most_reads=None) for row in batch.rows]
    return Rows(rows, follower.junk, follower.torn)


def read_metrics(run: Run) -> dict[str, list[MetricsRow]]:
    """Node -> its rows that count, one per round in the order of rounds; nodes that have any, by name."""
    found = {node: one_per_round(read_rows(run, node).rows) for node in nodes_with_logs(run)}
    return {node: rows for node, rows in found.items() if rows}


def one_per_round(rows: Iterable[MetricsRow]) -> list[MetricsRow]:
    """The rows that count, in the order of rounds."""
    last = {row.round: row for row in rows if counts(row)}
    return [last[number] for number in sorted(last)]


def counts(row: AnyRow) -> bool:
    """Whether its reward is a share of the full one."""
    return 0 <= row.my_reward <= 1


def read_judged(run: Run) -> list[JudgedRow]:
    """The judge's rows by round, node and question. Judged again after a crash, the last row counts."""
    lines = (parse_line(line, JudgedRow) for line in lines_of(run.store, keys.JUDGED))
    last = {
        (row.round, row.node_id, row.question_id): row for row in lines if row and row.schema_version == SCHEMA_VERSION
    }
    return [last[key] for key in sorted(last)]
