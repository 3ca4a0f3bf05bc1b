"""Tells how far one node is, and what its rows add up to.

all lines  ─ SUMS ──▶ rewards by round, sums and names over all rows
the last   ─ RECENT ▶ the last row, and what hints are made of
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from swarm.records.hints import KEPT, LONGEST_NAME, RECENT, Recent, recent
from swarm.records.rows import MOST_ROWS
from swarm.records.table import Odd, columns, measured, parse_row, parse_some
from swarm.wire.metrics import MetricsRow

MOST_SAID_OF = 300
"""Peers of whom it is held what a node said of them; a node reads 256 unless it is told otherwise."""
MOST_REASONS = 100
OWN = "own"
"""`clock` of a row whose round the node opened by itself."""
_ASKED = ("store_writes", "store_lists", "store_reads", "store_sent", "store_received", "store_spared")
SUMS = (
    *("external_unverified", "tokens_generated", "tokens_trained", "clock", "local_groups", "role", *_ASKED),
    *("accepted_by_peer", "refused_files", "false_claims", "refused_by_peer"),
)
"""Columns that are summed up over all rows; half the time of a look goes into their decoding."""


class RequestCounts(NamedTuple):
    """Requests, and bytes of contents as packed, with those that packing spared; removals are free."""

    writes: int = 0
    lists: int = 0
    reads: int = 0
    sent: int = 0
    received: int = 0
    spared: int = 0

    @property
    def requests(self) -> int:
        return self.writes + self.lists + self.reads

    def plus(self, more: RequestCounts) -> RequestCounts:
        return RequestCounts(*(a + b for a, b in zip(self, more, strict=True)))


class NodeProgress:
    """Sums up the rows of one node."""

    form = columns(*SUMS)
    """Columns that are read of every row."""

    def __init__(self) -> None:
        self.rewards: dict[int, float] = {}
        """Round -> my_reward."""
        self.unmeasured: set[int] = set()
        """Rounds whose reward measures nothing."""
        self.last: MetricsRow | None = None
        """The row that was written last, of which RECENT is known."""
        self.own_rounds_done = 0
        """Rounds behind it when it last opened one by itself; 0: never."""
        self.refused: Counter[str] = Counter()
        """Peers' files and groups that it refused, by reason."""
        self.refused_by_peer: dict[str, Counter[str]] = defaultdict(Counter)
        self.false_claims: Counter[str] = Counter()
        """By peer."""
        self.unverified = 0
        """Peers' groups that it trained on whose question could not be made anew."""
        self.accepted_by_peer: Counter[str] = Counter()
        """Peers' groups that it verified."""
        self.recent: deque[Recent] = deque(maxlen=KEPT)
        """What hints are made of: its last rows."""
        self.tokens_generated = 0
        """Over all rows, those of rounds that were done again included."""
        self.tokens_trained = 0
        self.asked = RequestCounts()
        """Requests to a bucket, over all rows."""
        self.odd = Odd()
        """Rows left out or clamped."""
        self.torn = False
        """The file ends in a line without its newline."""

    def observe(self, lines: Sequence[bytes]) -> None:
        """Take note of the lines that come after those seen; what is no row is left out."""
        newest = deque[bytes](maxlen=KEPT)
        for some, said in parse_some(lines, self.form, self.odd):
            rows = [row for row in said if row is not None]
            if len(rows) < len(some):
                some = [line for line, row in zip(some, said, strict=True) if row is not None]
            if rows:
                self._take(rows)
                newest.extend(some[-KEPT:])
        for row in self._last_rows(newest):
            self.last = row
            self.recent.append(recent(row))

    def _last_rows(self, lines: Sequence[bytes]) -> Iterator[MetricsRow]:
        """Yields the last rows, which were counted by a part of their columns."""
        for line in lines:
            if (row := parse_row(line, RECENT, odd := Odd())) is None:
                continue
            if odd.clamped and not _changes(line, self.form):
                self.odd.clamp(odd.example)
            yield row

    def _take(self, rows: Sequence[MetricsRow]) -> None:
        """Add up some rows that follow one another."""
        last = {row.round: row for row in rows}
        if (room := MOST_ROWS - len(self.rewards)) < len(last):
            last = dict(islice(last.items(), max(0, room)))
        self.rewards.update((round_, row.my_reward) for round_, row in last.items())
        counted = {row.round for row in measured(last.values())}
        self.unmeasured -= counted
        self.unmeasured |= last.keys() - counted
        self.own_rounds_done = max([self.own_rounds_done, *(row.round + 1 for row in rows if row.clock == OWN)])
        self.unverified += _sum(rows, "external_unverified")
        self.tokens_generated += _sum(rows, "tokens_generated")
        self.tokens_trained += _sum(rows, "tokens_trained")
        self.asked = self.asked.plus(RequestCounts(*(_sum(rows, name) for name in _ASKED)))
        for row in rows:
            if not self._takes_names(row):
                self.odd.cut_names(f"names of round {row.round}")

    def _takes_names(self, row: MetricsRow) -> bool:
        """Adds up a row's names; False: not all of them are held."""
        whole = not row.accepted_by_peer or _add(self.accepted_by_peer, row.accepted_by_peer, MOST_SAID_OF)
        whole &= not row.refused_files or _add(self.refused, row.refused_files, MOST_REASONS)
        whole &= not row.false_claims or _add(self.false_claims, row.false_claims, MOST_SAID_OF)
        for peer, reasons in row.refused_by_peer.items():
            fits = not reasons or _fits(self.refused_by_peer, peer, MOST_SAID_OF)
            whole &= fits and (not reasons or _add(self.refused_by_peer[peer], reasons, MOST_REASONS))
        return whole

    @property
    def rounds_done(self) -> int:
        """Returns rounds behind it, skipped ones included."""
        return max(self.rewards, default=-1) + 1

    @property
    def measured_rewards(self) -> dict[int, float]:
        """Round -> my_reward, of rounds in which that measures something."""
        return {round_: reward for round_, reward in self.rewards.items() if round_ not in self.unmeasured}

    @property
    def cumulative_reward(self) -> float:
        """Sum of the rewards of its rounds."""
        return sum(self.rewards.values())

    @property
    def is_alone(self) -> bool:
        """Tells whether it did its last round by itself."""
        return self.last is not None and self.last.clock == OWN

    @property
    def quarantined(self) -> frozenset[str]:
        """Returns peers that it reads nothing of by now."""
        return frozenset(self.last.quarantined if self.last else ())


def _add(total: Counter[str], counted: Mapping[str, int], most: int) -> bool:
    """Names cost who writes a row nothing: of those beyond `most`, and of those that are too long, nothing is held.

    Returns:
        whether all were held.
    """
    whole = True
    for name, count in counted.items():
        if name in total:
            total[name] += count
        elif _fits(total, name, most):
            total[name] = count
        else:
            whole = False
    return whole


def _fits(held: Mapping[str, object], name: str, most: int) -> bool:
    return name in held or (len(held) < most and len(name) <= LONGEST_NAME)


def _changes(line: bytes, form: type[MetricsRow]) -> bool:
    parse_row(line, form, odd := Odd())
    return bool(odd)


def _sum(rows: Sequence[MetricsRow], name: str) -> int:
    return sum(value for value in map(attrgetter(name), rows) if value)  # UNSET is false
