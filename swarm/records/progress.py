"""Tells how far one node is, and what its rows add up to."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from operator import attrgetter

from swarm.records.asked import RequestCounts
from swarm.records.hints import KEPT, LONGEST_NAME, Recent, recent
from swarm.records.keeping import measured
from swarm.records.odd import Odd
from swarm.records.rows import MOST_ROWS, Glance, parse_rows

MOST_SAID_OF = 300
"""Peers of whom it is held what a node said of them; a node reads 256 unless it is told otherwise."""
MOST_REASONS = 100
_asked = attrgetter("store_writes", "store_lists", "store_reads", "store_sent", "store_received", "store_spared")
OWN = "own"
"""`clock` of a row whose round the node opened by itself."""


class NodeProgress:
    """Sums up the rows of one node."""

    def __init__(self) -> None:
        self.rewards: dict[int, float] = {}
        """Round -> my_reward."""
        self.unmeasured: set[int] = set()
        """Rounds whose reward measures nothing."""
        self.last: Glance | None = None
        """The row that was written last."""
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
        newest = deque[Glance](maxlen=KEPT)
        for row in parse_rows(lines, Glance, self.odd):
            self._observe(row)
            newest.append(row)
        if newest:
            self.last = newest[-1]
            self.recent.extend(map(recent, newest))

    def _observe(self, row: Glance) -> None:
        if len(self.rewards) < MOST_ROWS:
            self.rewards[row.round] = row.my_reward
            self.unmeasured.discard(row.round)
            if not measured([row]):
                self.unmeasured.add(row.round)
        if row.clock == OWN:
            self.own_rounds_done = max(self.own_rounds_done, row.round + 1)
        if not self._takes_names(row):
            self.odd.cut_names(f"names of round {row.round}")
        self.unverified += row.external_unverified
        self.tokens_generated += row.tokens_generated
        self.tokens_trained += row.tokens_trained
        if any(asked := _asked(row)):
            self.asked = self.asked.plus(RequestCounts(*asked))

    def _takes_names(self, row: Glance) -> bool:
        """Adds up a row's names; False: not all of them are held."""
        named = (
            (self.accepted_by_peer, row.accepted_by_peer, MOST_SAID_OF),
            (self.refused, row.refused_files, MOST_REASONS),
            (self.false_claims, row.false_claims, MOST_SAID_OF),
        )
        whole = [_add(total, counted, most) for total, counted, most in named if counted]
        for peer, reasons in row.refused_by_peer.items():
            fits = not reasons or _fits(self.refused_by_peer, peer, MOST_SAID_OF)
            whole.append(fits and (not reasons or _add(self.refused_by_peer[peer], reasons, MOST_REASONS)))
        return all(whole)

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
    held = counted.keys() & total.keys()
    for name in held:
        total[name] += counted[name]
    room = max(0, most - len(total))
    new = [name for name in counted if name not in held and len(name) <= LONGEST_NAME][:room] if room else []
    total.update({name: counted[name] for name in new})
    return len(held) + len(new) == len(counted)


def _fits(held: Mapping[str, object], name: str, most: int) -> bool:
    return name in held or (len(held) < most and len(name) <= LONGEST_NAME)
