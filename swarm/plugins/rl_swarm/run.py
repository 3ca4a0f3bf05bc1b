"""All that is known of a run made by rl-swarm, read from its place as often as asked."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TypeVar

import msgspec

from swarm import forms
from swarm.errors import ProtocolError
from swarm.plugins.rl_swarm.forms import (
    CurrentState,
    MetricsLine,
    ProgressLine,
    Registration,
    Reward,
    Rollouts,
    said_in,
)
from swarm.plugins.rl_swarm.nodes import Junk, NodeFacts
from swarm.records.growing import GrowingLines, lines_of, parse_line
from swarm.records.listing import count_stage, entries, nodes_in, rounds_in
from swarm.records.rows import MOST_ROWS
from swarm.store.base import Entry, Store
from swarm.types import RoundKey
from swarm.wire import keys

Form = TypeVar("Form")
SMALL_FILE = 64 * 1024
LARGEST_ROLLOUTS = 16 * 2**20
"""Bytes; 64 completions of 2,048 tokens have half a megabyte."""
MOST_PARTS = 2**17
"""Objects, lists and texts of one file, as far as they can be counted before it is read: each takes some 50 to 200
bytes of memory, however short it is."""
MOST_NODES = 1000
MOST_LINES = 30_000
"""Lines of one metrics.jsonl: four or five for each round. What comes after counts as junk."""
MOST_READS = 2
"""Reads of one file of lines, 16 MiB together: 6,000 rounds."""
KEPT_JUNK = 100
"""Lines of no form that are kept of a file; of others, how many there are."""
MOST_JUNK = 1000
"""Lines of no form after which a file is read no further."""
MOST_KEPT = 40_000
"""Lines of all nodes together that are kept; what was let go is read again when it is asked for."""
HEAD = 200
"""Lines in which a node prints its settings after a start."""
MOST_OPENED = 20
"""Rounds of a node whose rollouts are opened to count its completions, until one has any."""
LONGEST_LINE = 400
"""Characters of a printed line that are kept."""
PROGRESS = "progress_"
_EXCEPTION = b"Exception occurred during game run"


class RlSwarmRun:
    """Reads one run. A node is read again only when one of its files is another one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._completions: dict[str, int] = {}
        self._facts: dict[str, tuple[object, NodeFacts]] = {}
        """Node -> versions of its files, and what was read of them."""
        self._there: dict[str, dict[str, list[int]]] = {}
        """Prefix -> node -> rounds with a file of its first stage, as listed last."""
        self._listed_for = set[str]()
        """Nodes that were read since."""

    def clock(self) -> CurrentState | None:
        """Reads the clock; None: there is none that can be read."""
        return self._read(keys.STATE, CurrentState, SMALL_FILE)

    def nodes(self) -> list[str]:
        """Returns all that registered or logged. Raises StoreError: they cannot be listed."""
        logged = {entry.name for entry in entries(self.store, keys.LOGS) if keys.is_node_id(entry.name)}
        return sorted(logged | nodes_in(self.store, keys.PEERS))[:MOST_NODES]

    def facts(self, node: str) -> NodeFacts:
        """Returns one node by now. Raises StoreError: the place fails."""
        rounds = rounds_in(self.store, keys.ROLLOUTS)
        files = (keys.metrics(node), _old_metrics(node), keys.stdout(node), f"{PROGRESS}{node}.json", keys.peer(node))
        versions = (*map(self._stat, files), len(rounds))
        seen, facts = self._facts.get(node, (None, None))
        if facts is None or seen != versions:
            facts = self._read_node(node)
            self._keep(node, versions, facts)
        return facts

    def _keep(self, node: str, versions: object, facts: NodeFacts) -> None:
        self._facts.pop(node, None)
        self._facts[node] = versions, facts
        kept = sum(len(one.lines) for _, one in self._facts.values())
        while kept > MOST_KEPT and len(self._facts) > 1:
            kept -= len(self._facts.pop(next(iter(self._facts)))[1].lines)

    def latest(self, node: str) -> NodeFacts:
        """Returns one node as it was read last, for who reads many of its files: its versions are not read again."""
        return self._facts[node][1] if node in self._facts else self.facts(node)

    def _read_node(self, node: str) -> NodeFacts:
        self._list_for(node)
        registration = self._read(keys.peer(node), Registration, SMALL_FILE)
        lines, junk, torn = self._lines(keys.metrics(node), MetricsLine, MOST_LINES)
        if old_name := not lines and self._stat(_old_metrics(node)) is not None:
            lines, junk, torn = self._lines(_old_metrics(node), MetricsLine, MOST_LINES)
        printed = lines_of(self.store, keys.stdout(node))
        head = list(islice(printed, HEAD))
        said, crash = said_in(head), next((line for line in chain(head, printed) if _EXCEPTION in line), b"")
        trains = registration is None or registration.node_role != "coordinator"
        rewards = self._rewards(node) if trains and not lines else {}
        last = max(self._there[keys.ROLLOUTS].get(node, ()), default=-1) if trains else -1
        return NodeFacts(
            node=node,
            registration=registration if registration and registration.peer_id == node else None,
            said=said,
            lines=lines,
            old_name=old_name,
            junk=junk,
            torn=torn,
            rewards=rewards,
            progress=self._lines(f"{PROGRESS}{node}.json", ProgressLine, MOST_ROWS)[0],
            completions=self._completions_of(node) or said.completions,
            published=max([last, *rewards]) + 1,
            crashed_with=crash.decode("utf-8", "replace")[:LONGEST_LINE],
        )

    def rollouts(self, key: str) -> Rollouts:
        """Returns one file. Raises FileNotFoundError; ProtocolError: it is none, or holds nothing."""
        data, where = self.store.get(key, LARGEST_ROLLOUTS).data, self.store.describe(key)
        if (parts := data.count(b"{") + data.count(b"[") + data.count(b'",')) > MOST_PARTS:
            raise ProtocolError("oversized", f"{where} has {parts} objects, lists and texts, the limit is {MOST_PARTS}")
        try:
            found = forms.decode(data, Rollouts)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            empty = (
                " (its version of rl-swarm wrote empty objects)" if b"[{}" in b"".join(data[:10_000].split()) else ""
            )
            raise ProtocolError("malformed", f"{where} holds no completions: {error}{empty}") from None
        return found

    def reward(self, key: str) -> Reward:
        """Returns one file. Raises FileNotFoundError; ProtocolError: it is none."""
        if (found := parse_line(self.store.get(key, SMALL_FILE).data, Reward)) is None:
            raise ProtocolError("malformed", f"{self.store.describe(key)} is no reward of rl-swarm")
        return found

    def completions_in(self, round_: int, node: str) -> int:
        """Counts the completions that a node published in one round, all stages; 0: nobody can say."""
        total, prefix = 0, f"{keys.ROLLOUTS}/round_{round_}"
        with suppress(ProtocolError, FileNotFoundError):
            for entry in entries(self.store, prefix):
                stage = keys.stage_of(entry.name)
                if stage is not None and self._stat(keys.rollout(RoundKey(round_, stage), node)):
                    file = self.rollouts(keys.rollout(RoundKey(round_, stage), node))
                    total += sum(len(payload.actions) for group in file.rollouts.values() for payload in group)
            return total
        return 0

    def _list_for(self, node: str) -> None:
        """List what every node published, once for all nodes: anew as soon as one of them is read again."""
        if not self._there or node in self._listed_for:
            self._there = {prefix: self._of_nodes(prefix) for prefix in (keys.ROLLOUTS, keys.REWARDS)}
            self._listed_for.clear()
        self._listed_for.add(node)

    def _of_nodes(self, prefix: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for r in rounds_in(self.store, prefix):
            for node in count_stage(self.store, f"{prefix}/round_{r}/stage_0")[0]:
                found.setdefault(node, []).append(r)
        return found

    def _completions_of(self, node: str) -> int:
        if node not in self._completions:
            published = self._there[keys.ROLLOUTS].get(node, ())
            counts = (self.completions_in(r, node) for r in islice(published, MOST_OPENED))
            if found := next(filter(None, counts), 0):
                self._completions[node] = found
        return self._completions.get(node, 0)

    def _rewards(self, node: str) -> dict[int, Reward]:
        found = {}
        for r in self._there[keys.REWARDS].get(node, ()):
            file = self._read(keys.reward(RoundKey(r), node), Reward, SMALL_FILE)
            if file and (file.round, file.stage, file.peer_id) == (r, 0, node):
                found[r] = file
        return found

    def _stat(self, key: str) -> Entry | None:
        try:
            return self.store.stat(key)
        except ProtocolError:  # something else stands in the place of a prefix
            return None

    def _read(self, key: str, form: type[Form], limit: int) -> Form | None:
        try:
            return parse_line(self.store.get(key, limit).data, form)
        except (FileNotFoundError, ProtocolError):
            return None

    def _lines(self, key: str, form: type[Form], most: int) -> tuple[list[Form], Junk, bool]:
        """Returns the lines of a growing file that are of a form, those that are not, and whether it ends in half a
        line. After MOST_JUNK that are not it is read no further."""
        growing, found, junk, count = GrowingLines(self.store, key), list[Form](), list[bytes](), 0
        for part in growing.look(MOST_READS):
            for line in part.records:
                if len(found) < most and (parsed := parse_line(line, form)) is not None:
                    found.append(parsed)
                    continue
                count += 1
                if len(junk) < KEPT_JUNK:
                    junk.append(line[:LONGEST_LINE])
                if count > MOST_JUNK:
                    return found, Junk(junk, count), growing.torn
        return found, Junk(junk, count), growing.torn


def _old_metrics(node: str) -> str:
    """Returns the name that versions from 12 October to 16 November 2025 gave to a node's metrics."""
    return keys.metrics(node).removesuffix("l")
