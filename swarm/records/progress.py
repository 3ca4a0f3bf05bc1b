"""Tells how far one node is, and what its rows add up to.

all rows  ──▶ rewards by round, sums and names over all of them
the last  ──▶ the last row, and what hints are made of

A node writes into every 16th row what all rows so far add up to (Totals). So who looks need not read a log of months:

the last lines ─▶ the last totals ─ SUMS of the rows behind them ─▶ the same sums
                  none, or a row behind them is of a round before  ─▶ all lines
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import NamedTuple

from msgspec import UNSET

from swarm.records.growing import LONGEST_NAME, Follower
from swarm.records.hints import KEPT, RECENT, Recent, recent
from swarm.records.rows import MOST_ROWS
from swarm.records.table import Odd, columns, measured, parse_row, parse_rows
from swarm.store.base import Store
from swarm.wire.metrics import MOST_ROUND_SPANS, MetricsRow, Totals

MOST_SAID_OF = 300
"""Peers of whom it is held what a node said of them; a node reads 256 unless it is told otherwise."""
MOST_REASONS = 100
AT_ONCE = 256
"""Rows that are held while they are added up."""
OWN = "own"
"""`clock` of a row whose round the node opened by itself."""
_ASKED = ("store_writes", "store_lists", "store_reads", "store_sent", "store_received", "store_spared")
_SUMMED = ("tokens_generated", "tokens_trained", *_ASKED)
_COUNTED = {"accepted_by_peer": MOST_SAID_OF, "refused_files": MOST_REASONS, "false_claims": MOST_SAID_OF}
"""Columns of names that are added up, with the most names that are held of each."""
SUMS = (*_SUMMED, *_COUNTED, "refused_by_peer", "clock", "local_groups", "role")
"""Columns that are summed up over all rows."""
ENDS = (360 * 2**10, 2**20, 8 * 2**20)
"""Bytes at the end of a log in which totals, and KEPT rows, are looked for: rows have 2 to 30 KB, the more peers the
more."""
WITH_TOTALS = columns("totals")
_TOTALS = b'"totals":{'


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


class RoundSet:
    """Holds rounds as spans, which take no more room in a long run than in a short one."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self.spans = list(spans)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.spans)

    def __iter__(self) -> Iterator[int]:
        return (number for first, last in self.spans for number in range(first, last + 1))

    @classmethod
    def of(cls, numbers: Iterable[int]) -> RoundSet:
        """Returns these as spans."""
        spans: list[tuple[int, int]] = []
        for number in sorted(numbers):
            if spans and spans[-1][1] == number - 1:
                spans[-1] = (spans[-1][0], number)
            else:
                spans.append((number, number))
        return cls(spans)

    def are_sound(self) -> bool:
        """Tells whether the spans are in order and apart, and no more rounds than rows are held of one node."""
        in_order = all(a <= b for a, b in self.spans) and all(a[1] < b[0] for a, b in pairwise(self.spans))
        return bool(self.spans) and in_order and len(self) <= MOST_ROWS


class NodeProgress:
    """Sums up the rows of one node."""

    form = columns(*SUMS, *RECENT)
    """Columns that are read of every row."""

    def __init__(self) -> None:
        self.rewards: dict[int, float] = {}
        """Round -> my_reward, of the rounds behind those that totals tell of."""
        self.unmeasured: set[int] = set()
        """Those of them whose reward measures nothing."""
        self._before = Totals(rounds=[])
        """What the rows before these add up to."""
        self._rounds_before = RoundSet()
        self._latest_before: dict[int, float] = {}
        """Round -> my_reward, of the last rounds that totals tell of."""
        self.is_contradicted = False
        """A round that totals tell of was done again: the log is to be read from its first row."""
        self.last: MetricsRow | None = None
        """The row that was written last."""
        self.own_rounds_done = 0
        """RoundSet behind it when it last opened one by itself; 0: never."""
        self.sums = dict.fromkeys(_SUMMED, 0)
        """Column -> sum over all rows, those of rounds that were done again included."""
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
        """Column of names -> name -> sum over all rows."""
        self.refused_by_peer: dict[str, Counter[str]] = defaultdict(Counter)
        self.recent: deque[Recent] = deque(maxlen=KEPT)
        """What hints are made of: its last rows."""
        self.odd = Odd()
        """Rows left out or clamped."""
        self.torn = False
        """The file ends in a line without its newline."""

    def observe(self, lines: Sequence[bytes]) -> None:
        """Take note of the lines that come after those seen; what is no row is left out."""
        newest = deque[MetricsRow](maxlen=KEPT)
        for begin in range(0, len(lines), AT_ONCE):
            rows = [*parse_rows(lines[begin : begin + AT_ONCE], self.form, self.odd)]
            self.add_up(rows)
            newest.extend(rows)
        for row in newest:
            self.last = row
            self.recent.append(recent(row))

    def observe_end(self, lines: Sequence[bytes]) -> bool:
        """Take note of the last lines of a log, and of what the totals in them say of those before.

        Returns:
            False: there are none, or too few lines; then nothing was taken.
        """
        for place in range(len(lines) - 1, -1, -1):
            if _TOTALS in lines[place] and (row := parse_row(lines[place], WITH_TOTALS)) and row.totals is not UNSET:
                break
        else:
            return False
        if len(lines) < KEPT or not _are_sound(row.totals):
            return False
        self._begin(row.totals)
        for last in parse_rows(lines[: place + 1][-KEPT:], self.form, self.odd):
            self.last = last
            self.recent.append(recent(last))
            if measured([last]):
                self._latest_before[last.round] = last.my_reward
        self.observe(lines[place + 1 :])
        return True

    def _begin(self, totals: Totals) -> None:
        self._before = totals
        self._rounds_before = RoundSet(totals.rounds)
        self.own_rounds_done = totals.own_rounds_done
        self.sums = {name: totals.sums.get(name, 0) for name in _SUMMED}
        if not self._takes(totals.counts, totals.refused_by_peer):
            self.odd.count("cut", f"names of the rounds to {totals.rounds[-1][1]}")

    def totals(self) -> Totals | None:
        """Returns what all rows add up to, where all were seen; None: rounds have more gaps than totals can say."""
        rounds, unmeasured = RoundSet.of(self.rewards), RoundSet.of(self.unmeasured)
        if max(len(rounds.spans), len(unmeasured.spans)) > MOST_ROUND_SPANS:
            return None
        return Totals(
            rounds=rounds.spans,
            unmeasured=unmeasured.spans,
            reward=self.cumulative_reward,
            own_rounds_done=self.own_rounds_done,
            sums=dict(self.sums),
            counts={name: dict(counted) for name, counted in self.counts.items()},
            refused_by_peer={peer: dict(reasons) for peer, reasons in self.refused_by_peer.items()},
        )

    @property
    def asked(self) -> RequestCounts:
        """Returns requests to a bucket, over all rows."""
        return RequestCounts(*(self.sums[name] for name in _ASKED))

    def add_up(self, rows: Sequence[MetricsRow]) -> None:
        """Add up some rows that follow one another, those seen first."""
        last = {row.round: row for row in rows}
        self.is_contradicted |= any(number in self._rounds_before for number in last)
        if (room := MOST_ROWS - len(self.rewards)) < len(last):
            last = dict(islice(last.items(), max(0, room)))
        self.rewards.update((round_, row.my_reward) for round_, row in last.items())
        counted = {row.round for row in measured(last.values())}
        self.unmeasured -= counted
        self.unmeasured |= last.keys() - counted
        self.own_rounds_done = max([self.own_rounds_done, *(row.round + 1 for row in rows if row.clock == OWN)])
        for name in _SUMMED:
            self.sums[name] += sum(filter(None, map(attrgetter(name), rows)))  # UNSET is false
        for row in rows:
            named = {name: counts for name in _COUNTED if (counts := getattr(row, name))}
            if (named or row.refused_by_peer) and not self._takes(named, row.refused_by_peer):
                self.odd.count("cut", f"names of round {row.round}")

    def _takes(self, counts: Mapping[str, Mapping[str, int]], refused: Mapping[str, Mapping[str, int]]) -> bool:
        """Adds up names, by their columns and why each peer was refused; False: not all of them are held."""
        whole = True
        for name, most in _COUNTED.items():
            if named := counts.get(name):
                whole &= add_names(self.counts[name], named, most)
        for peer, reasons in refused.items():
            if reasons and fits(self.refused_by_peer, peer, MOST_SAID_OF):
                whole &= add_names(self.refused_by_peer[peer], reasons, MOST_REASONS)
            else:
                whole &= not reasons
        return whole

    @property
    def rounds_done(self) -> int:
        """Returns rounds behind it, skipped ones included."""
        before = self._rounds_before.spans[-1][1] if self._rounds_before.spans else -1
        return max(self.rewards, default=before) + 1

    @property
    def rounds_with_rows(self) -> int:
        """Returns how many rounds have a row that counts."""
        return len(self._rounds_before) + len(self.rewards)

    def all_rounds(self) -> list[int]:
        """Returns the rounds with a row that counts, in order."""
        return sorted({*self._rounds_before, *self.rewards})

    @property
    def measured_rewards(self) -> dict[int, float]:
        """Round -> my_reward, of the rounds in which that measures something: all, or the last KEPT at least."""
        later = {round_: reward for round_, reward in self.rewards.items() if round_ not in self.unmeasured}
        return self._latest_before | later

    @property
    def cumulative_reward(self) -> float:
        """Sum of the rewards of its rounds."""
        return sum(self.rewards.values(), start=self._before.reward)


class ProgressFollower(Follower[NodeProgress]):
    """Keeps what the rows of one node add up to up to date, from the last totals in its log on."""

    def __init__(self, store: Store, key: str) -> None:
        super().__init__(store, key, NodeProgress)
        self._is_begun = False

    def look(self) -> NodeProgress:
        if self._is_begun:
            super().look()
        else:
            self._begin_at_the_end()
        if self._total.is_contradicted:
            self._begin_again()
        self._is_begun, self._total.torn = True, self._growing.torn
        return self._total

    def _begin_at_the_end(self) -> None:
        for size in ENDS:
            found, self._total = self._growing.look_at_end(size), NodeProgress()
            if found.cut and self._total.observe_end(found.records):
                return
            if not found.cut:
                self._total.observe(found.records)
                if found.more:
                    super().look()
                return
        self._begin_again()

    def _begin_again(self) -> None:
        self._growing.begin_again()
        self._total = NodeProgress()
        super().look()


def _are_sound(totals: Totals) -> bool:
    """Tells whether the spans of totals can be; they may be a stranger's."""
    unmeasured = RoundSet(totals.unmeasured)
    return RoundSet(totals.rounds).are_sound() and (not totals.unmeasured or unmeasured.are_sound())


def add_names(total: Counter[str], counted: Mapping[str, int], most: int) -> bool:
    """Names cost who writes a row nothing: of those beyond `most`, and of those that are too long, nothing is held.

    Returns:
        whether all were held.
    """
    whole = True
    for name, count in counted.items():
        if name in total:
            total[name] += count
        elif fits(total, name, most):
            total[name] = count
        else:
            whole = False
    return whole


def fits(held: Mapping[str, object], name: str, most: int) -> bool:
    """Tells whether a name is held, or may be: it is not too long, and fewer than `most` are."""
    return name in held or (len(held) < most and len(name) <= LONGEST_NAME)
