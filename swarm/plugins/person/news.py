"""Tells what became of a node's groups: what they earned, who trained on them; and nothing of the true answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from swarm.errors import ProtocolError
from swarm.records.growing import GrowingLines, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.records.rollouts import RolloutFiles
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import Count

MOST_LOOKED_AT = 256
"""Whose rows are looked at, by name."""
MOST_FILE = 8 * 2**20
"""Bytes of an own file."""
ROUNDS_BACK = 8
"""Rounds of whose answers it is told who trained on them: anybody may say so of any round."""
MOST_NAMED = 5
"""Peers of one message."""


class _Row(msgspec.Struct):
    """The columns that are read of anybody's row."""

    round: Count
    local_groups: Count = 0
    late: bool = False
    trained_on: list[str] = []


class GroupNews:
    """Tells what became of one node's groups since this was made. Its verbs block."""

    def __init__(self, run: Run, node: str) -> None:
        self._run, self._node = run, node
        self._rows: dict[str, GrowingLines] = {}
        self._latest = -1
        """Own round."""
        self._told: set[tuple[int, str]] = set()
        """Rounds, and who trained on their answers."""
        for name in (node, *self._peers()):
            self._read(name)  # what was before is no news

    def look(self) -> list[str]:
        """Returns in words what is new."""
        return [*(self._of_round(row) for row in self._read(self._node) if row.local_groups), *self._trained_on()]

    def _of_round(self, row: _Row) -> str:
        rewards = self._rewards(row.round)
        if not rewards:
            return f"round {row.round}: your answers cannot be read any more"
        told = "; ".join(" ".join(f"{reward:.2f}" for reward in group) for group in rewards)
        unlike = any(len(set(group)) > 1 for group in rewards)
        if row.late:
            return f"round {row.round}: your answers earned {told}, and came too late for the others"
        learn = "" if unlike else "; all the same, so nobody can learn from them"
        return f"round {row.round}: your answers earned {told}{learn}"

    def _rewards(self, round_: int) -> list[tuple[float, ...]]:
        key = RoundKey(round_)
        try:
            file = RolloutFiles(self._run, {round_}).decoded(key, self._node, MOST_FILE)
        except ProtocolError:
            return []
        return [tuple(e.reward or 0.0 for e in file.rollouts[slot]) for slot in sorted(file.rollouts)] if file else []

    def _trained_on(self) -> Iterator[str]:
        by_round: dict[int, set[str]] = defaultdict(set)
        for peer in self._peers():
            for said in (name for row in self._read(peer) for name in row.trained_on):
                publisher, _, rest = said.partition("/")
                round_ = rest.partition("/")[0]
                if publisher == self._node and round_.isdecimal() and self._is_news(number := int(round_[:9]), peer):
                    by_round[number].add(peer)
        for number, peers in sorted(by_round.items()):
            named = [*sorted(peers)[:MOST_NAMED], *(f"{n} others" for n in (len(peers) - MOST_NAMED,) if n > 0)]
            yield f"round {number}: {', '.join(named)} trained on your answers"

    def _is_news(self, number: int, peer: str) -> bool:
        """An own round that may be going on, or one of the last; said of that peer for the first time."""
        if not self._latest - ROUNDS_BACK <= number <= self._latest + 1 or (number, peer) in self._told:
            return False
        self._told = {(told, name) for told, name in self._told if told >= self._latest - ROUNDS_BACK}
        self._told.add((number, peer))
        return True

    def _peers(self) -> list[str]:
        return [peer for peer in nodes_with_logs(self._run) if peer != self._node][:MOST_LOOKED_AT]

    def _read(self, name: str) -> list[_Row]:
        growing = self._rows.setdefault(name, GrowingLines(self._run.store, keys.metrics(name)))
        lines = (line for part in growing.look() for line in part.records)
        rows = [row for line in lines if (row := parse_line(line, _Row))]
        if name == self._node:
            self._latest = max([self._latest, *(row.round for row in rows)])
        return rows
