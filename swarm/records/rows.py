"""Metrics rows: which a node has, as written and one per round and stage.

The folder says whose a row is, whatever the row says. A node that resumed may write a round again: the last row counts.
A row whose reward is no share of the full one is left out: one number without bounds would be the whole of a sum. Any
other number that is out of its range is clamped (ranges). Both are counted, for whoever shows what the rows add up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from swarm import forms
from swarm.errors import StoreError
from swarm.records.growing import MOST_READS, GrowingLines, lines_of, parse_line, parse_lines
from swarm.records.history_row import HistoryRow
from swarm.records.keeping import Keeper, SummedRow, taking
from swarm.records.listing import nodes_with_logs
from swarm.records.odd import Odd
from swarm.records.ranges import KEY_COLUMNS, clamp, is_share, strict
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.judge_messages import JudgedRow
from swarm.wire.messages import SCHEMA_VERSION, Count, MetricsRow

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
    total_agents: int = 0
    answer_tag_rate: float = 0.0
    finished_rate: float = 0.0
    local_groups: int = 0
    zero_advantage_local: float = 0.0
    external_wanted: int = 0
    external_groups: int = 0
    pool_groups: int = 0
    pool_informative: int = 0
    peers_heard: int = 0
    accepted_by_peer: dict[str, int] = {}
    late: bool = False
    updated: bool = True
    seconds_round: float = 0.0
    tokens_generated: int = 0
    tokens_trained: int = 0
    store_writes: int = 0
    store_lists: int = 0
    store_reads: int = 0
    store_sent: int = 0
    store_received: int = 0
    store_spared: int = 0
    memory_allocated: int = 0
    memory_total: int = 0
    memory_free: int = 0
    disk_free: int = 0
    disk_used: float = 0.0
    logprobs_by_peer: dict[str, float] = {}
    clock: str = "coordinator"
    role: str | UnsetType = UNSET
    schema_version: int = SCHEMA_VERSION


Form = TypeVar("Form", Glance, HistoryRow, MetricsRow, JudgedRow)
Held = TypeVar("Held", bound=msgspec.Struct)
"""A row with the columns that its reader needs."""


def parse_row(line: bytes, form: type[Form], odd: Odd | None = None) -> Form | None:
    """Returns one line as a row with each number in its range, or None for anything else, and for a version that is not
    known.

    Args:
        odd: counts what was left out or clamped.
    """
    if form not in (MetricsRow, JudgedRow) and (sound := _sound(line, form)) is not None:
        return sound
    row = parse_line(line, form)
    if row is None or row.schema_version != SCHEMA_VERSION:
        return None
    odd = Odd() if odd is None else odd
    like = JudgedRow if isinstance(row, JudgedRow) else MetricsRow
    reward = getattr(row, KEY_COLUMNS[like])
    if not is_share(reward):
        odd.leave_out(f"{KEY_COLUMNS[like]} of round {row.round} expected in [0, 1], got {reward:g}")
        return None
    if changed := clamp(row, like):
        odd.clamp(f"{changed[0]} of round {row.round} is out of its range")
    return row


def parse_rows(lines: Sequence[bytes], form: type[Form], odd: Odd) -> Iterator[Form]:
    """Yields the rows among many lines; it parses each as parse_row does."""
    for _, row in parse_lines(lines, strict(form), lambda line: parse_row(line, form, odd)):
        if row is not None and row.schema_version == SCHEMA_VERSION:
            yield row


def _sound(line: bytes, form: type[Form]) -> Form | None:
    """Returns a row of this version of which nothing has to be changed: nearly all are. None: it may be one or not."""
    try:
        row = forms.decode(line, strict(form))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return row if row.schema_version == SCHEMA_VERSION else None


class MetricsRows(NamedTuple, Generic[Held]):
    """Holds what a metrics file has."""

    rows: list[Held]
    """Rows as written, but for what `odd` says."""
    junk: int
    """Whole lines that are no metrics row."""
    torn: bool
    """The last line has no newline: it is being written, or its writer was killed."""
    odd: Odd
    """Rows left out or clamped."""


def read_rows(run: Run, node: str) -> MetricsRows[MetricsRow]:
    """Returns all rows of one node, at most MOST_ROWS of them and those of one look. A missing file has none."""
    return read_columns(run, node, MetricsRow)


def read_columns(run: Run, node: str, form: type[Held], most_reads: int | None = MOST_READS) -> MetricsRows[Held]:
    """Reads a node's rows as read_rows does, and keeps of each the columns of a form of `keeping`.

    Args:
        most_reads: None: to the end, however many rows that are.
    """
    rows: list[Held] = []
    junk, odd, growing = 0, Odd(), GrowingLines(run.store, keys.metrics(node))
    take, keeper = taking(form), Keeper(odd)
    for part in growing.look(most_reads):
        for line in part.records:
            left_out = odd.left_out
            if (whole := parse_row(line, MetricsRow, odd)) is not None:
                rows.append(keeper.keep(take(whole)))
            else:
                junk += odd.left_out == left_out
        if most_reads and len(rows) >= MOST_ROWS:
            del rows[MOST_ROWS:]
            break
    return MetricsRows(rows, junk, growing.torn, odd)


def read_own_rows(run: Run, node: str) -> MetricsRows[MetricsRow]:
    """Reads all of a node's own rows, however many there are: a node that goes on must not miss its last one.

    They are brought to disk first, for what follows is built on them: a kill may have come between a row and its sync.
    """
    with suppress(StoreError):
        run.store.sync(keys.metrics(node))
    return read_columns(run, node, MetricsRow, most_reads=None)


def read_metrics(run: Run) -> dict[str, list[MetricsRow]]:
    """Returns node -> its rows that count, one per round and stage, in their order; nodes that have any, by name."""
    return read_metrics_and_odd(run)[0]


def read_metrics_and_odd(run: Run) -> tuple[dict[str, list[MetricsRow]], dict[str, Odd]]:
    """Reads the rows of all nodes as read_metrics does, and by node the rows that were left out or changed."""
    return _that_count(run, MetricsRow)


def read_to_sum_up(run: Run) -> tuple[dict[str, list[SummedRow]], dict[str, Odd]]:
    """Reads the rows of all nodes, and keeps of each what a summary needs; else as read_metrics_and_odd."""
    return _that_count(run, SummedRow)


def _that_count(run: Run, form: type[Held]) -> tuple[dict[str, list[Held]], dict[str, Odd]]:
    counting, odd = dict[str, list[Held]](), dict[str, Odd]()
    for node in nodes_with_logs(run):
        found = read_columns(run, node, form)
        if found.rows:
            counting[node] = one_per_stage(found.rows)
        if found.odd:
            odd[node] = found.odd
    return counting, odd


def one_per_stage(rows: Iterable[Held]) -> list[Held]:
    """Returns the last row of each round and stage, in their order."""
    last = {_key(row): row for row in rows}
    return [last[key] for key in sorted(last)]


def one_per_round(rows: Iterable[Held]) -> list[Held]:
    """Returns each round's last stage among rows that are in their order: it says what came of the round."""
    return list({_round(row): row for row in rows}.values())


_key = attrgetter("round", "stage")
_round = attrgetter("round")


def read_judged(run: Run) -> list[JudgedRow]:
    """Returns the judge's rows by round, node and question. Judged again after a crash, the last row counts."""
    rows = (parse_row(line, JudgedRow) for line in lines_of(run.store, keys.JUDGED))
    last = {(row.round, row.node_id, row.question_id): row for row in rows if row}
    return [last[key] for key in sorted(last)]
