"""The rows of a node or of a run, read whole: as written, or the one that counts of each round and stage.

    lines ─ table.parse_rows ─▶ MetricsRow ─ taking(form) ─▶ fewer columns ─ Keeper ─▶ rows
                                                                               │
                       one row's names and lists above MOST_OF_ROW  ─▶ let go  ┤
                       those of all its rows above MOST_OF_WORKER   ─▶ let go, the oldest after FIRST first

The folder says whose a row is, whatever the row says. A node that resumed may write a round again: the last row counts.
Names cost who writes a row 40 bytes in a file and a reader 100 in memory or more, so they are bounded by about what
they take there. A worker that hears 64 peers takes some 9 KB a row, and 2,000 such rows fit. What is let go is counted
in `Odd`; numbers of a row always stay.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from swarm.errors import StoreError
from swarm.records.growing import MOST_READS, GrowingLines, lines_of
from swarm.records.listing import nodes_with_logs
from swarm.records.table import Odd, parse_row, parse_rows
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.judge_messages import JudgedRow
from swarm.wire.messages import MetricsRow

MOST_ROWS = 100_000
"""Rows of one node that are held; rounds, that is."""
MOST_OF_ROW = 256 * 2**10
"""Bytes of the names and lists of one row."""
MOST_OF_WORKER = 20 * 2**20
"""Bytes of the names and lists of all rows of one worker."""
FIRST = 10
"""Rows whose names stay whatever comes after them."""


class MetricsRows(NamedTuple):
    """Holds what a metrics file has."""

    rows: list[MetricsRow]
    """Rows as written, but for what `odd` says."""
    junk: int
    """Whole lines that are no metrics row."""
    torn: bool
    """The last line has no newline: it is being written, or its writer was killed."""
    odd: Odd
    """Rows left out or clamped."""


def read_rows(
    run: Run, node: str, form: type[MetricsRow] = MetricsRow, most_reads: int | None = MOST_READS
) -> MetricsRows:
    """Returns the rows of one node with the columns of a form; a missing file has none.

    Args:
        most_reads: those of one look, and at most MOST_ROWS; None: to the end, however many rows that are.
    """
    rows: list[MetricsRow] = []
    others, odd, growing = 0, Odd(), GrowingLines(run.store, keys.metrics(node))
    take, keeper = taking(form), Keeper(odd)
    for part in growing.look(most_reads):
        before = len(rows)
        rows += [keeper.keep(take(row)) for row in parse_rows(part.records, MetricsRow, odd)]
        others += len(part.records) - (len(rows) - before)
        if most_reads and len(rows) >= MOST_ROWS:
            del rows[MOST_ROWS:]
            break
    return MetricsRows(rows, others - odd.left_out, growing.torn, odd)


def read_own_rows(run: Run, node: str) -> MetricsRows:
    """Reads all of a node's own rows, however many there are: a node that goes on must not miss its last one.

    They are brought to disk first, for what follows is built on them: a kill may have come between a row and its sync.
    """
    with suppress(StoreError):
        run.store.sync(keys.metrics(node))
    return read_rows(run, node, most_reads=None)


def read_metrics(run: Run) -> dict[str, list[MetricsRow]]:
    """Returns node -> its rows that count, one per round and stage, in their order; nodes that have any, by name."""
    found = {node: read_rows(run, node).rows for node in nodes_with_logs(run)}
    return {node: one_per_stage(rows) for node, rows in found.items() if rows}


def one_per_stage(rows: Iterable[MetricsRow]) -> list[MetricsRow]:
    """Returns the last row of each round and stage, in their order."""
    last = {_key(row): row for row in rows}
    return [last[key] for key in sorted(last)]


def one_per_round(rows: Iterable[MetricsRow]) -> list[MetricsRow]:
    """Returns each round's last stage among rows that are in their order: it says what came of the round."""
    return list({row.round: row for row in rows}.values())


_key = attrgetter("round", "stage")


def read_judged(run: Run) -> list[JudgedRow]:
    """Returns the judge's rows by round, node and question. Judged again after a crash, the last row counts."""
    rows = (parse_row(line, JudgedRow) for line in lines_of(run.store, keys.JUDGED))
    last = {(row.round, row.node_id, row.question_id): row for row in rows if row}
    return [last[key] for key in sorted(last)]


# ── what is held of them ────────────────────────────────────────────────────────────────────────────────────────────
@cache
def taking(form: type[MetricsRow]) -> Callable[[MetricsRow], MetricsRow]:
    """Returns a function that takes a row of this form of a whole one."""
    if form is MetricsRow:
        return lambda row: row
    names = attrgetter(*form.__struct_fields__)
    return lambda row: form(*names(row))  # type: ignore[call-arg]  # of fewer columns


class Keeper:
    """Bounds what the names and lists in one worker's rows take."""

    def __init__(self, odd: Odd) -> None:
        """`odd`: counts the rows whose names and lists were let go."""
        self._odd = odd
        self._held = deque[tuple[msgspec.Struct, int]]()
        """Rows that have names, those that are never let go aside, and the bytes of these."""
        self._bytes = 0
        self._seen = 0

    def keep(self, row: MetricsRow) -> MetricsRow:
        """Returns the row that comes after those seen, as it is held: the same, changed in place.

        What it says of the rows before it is let go: they are all here.
        """
        if getattr(row, "totals", UNSET) is not UNSET:
            row.totals = UNSET
        size = sum(_size(getattr(row, column)) for column in _named_columns(type(row)))
        self._seen += 1
        if size > MOST_OF_ROW:
            self._let_go(row)
            return row
        self._bytes += size
        if size and self._seen > FIRST:
            self._held.append((row, size))
        while self._bytes > MOST_OF_WORKER and self._held:
            oldest, freed = self._held.popleft()
            self._bytes -= freed
            self._let_go(oldest)
        return row

    def _let_go(self, row: msgspec.Struct) -> None:
        for column in _named_columns(type(row)):
            if (held := getattr(row, column)) is not UNSET:
                setattr(row, column, type(held)())
        self._odd.count("cut", f"names of round {getattr(row, 'round', 0)}")


def _size(value: Any) -> int:
    """Returns about how many bytes a value takes. Of names in dicts, which come again, the decoder holds one for all
    rows: their letters count, so that invented ones are bounded, too. Rows of these take up to twice as much."""
    if not value or (type(value) is int and value <= _SMALL):
        return 0
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(map(len, value)) + sum(map(_size, value.values()))
    return sys.getsizeof(value) + (sum(map(_size, value)) if isinstance(value, list) else 0)


_SMALL = 256
"""Integers up to this one are held once by Python itself."""


@cache
def _named_columns(form: type[msgspec.Struct]) -> tuple[str, ...]:
    """Returns the columns of text, names and lists."""
    fields = msgspec.structs.fields(form)
    return tuple(f.name for f in fields if any(kind in str(f.type) for kind in ("str", "dict", "list")))
