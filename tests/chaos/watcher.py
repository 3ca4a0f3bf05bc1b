"""Looks at a swarm's folder all the time, and remembers: what was seen once may neither change, go, nor go back.

The checks that need the whole run are in audit.py.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swarm.errors import ProtocolError
from swarm.records.files import read_state
from swarm.records.growing import GrowingLines
from swarm.records.listing import entries, nodes_in, nodes_with_logs, rounds_in, saved_rounds
from swarm.views.validate import validate
from swarm.wire import keys
from swarm.wire.messages import MetricsRow, NodeState
from tests.layout import Layout

PAUSE = 0.1
"""Seconds between looks."""
RECENT = 4
"""Rounds back that every look reads again; the audit reads all."""


@dataclass
class Watcher:
    """Runs as a thread of the campaign, from `with` to its end."""

    layout: Layout
    violations: list[str] = field(default_factory=list)
    acknowledged: dict[Path, bytes] = field(default_factory=dict)
    """Digests of the rollout and reward files that were there, by path."""
    checkpoints: dict[tuple[str, int], NodeState] = field(default_factory=dict)
    """What every checkpoint says that was there, by node and rounds done."""
    clock: tuple[int, int] = (-1, -1)
    """The furthest round and stage that the state file has named."""
    rows: dict[str, list[MetricsRow]] = field(default_factory=dict)
    looks: int = 0
    _tails: dict[str, GrowingLines] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._watch, name="watcher")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def _watch(self) -> None:
        try:
            while not self._over.wait(PAUSE):
                self.look()
            self.look(everything=True)
        except Exception as error:  # noqa: BLE001 - a watcher that sees nothing any more must not pass for peace
            self._say(f"the watcher ended early: {error!r}")

    def look(self, *, everything: bool = False) -> None:
        """Once; at whole rounds, or at the newest of them."""
        self.looks += 1
        self._validate()
        self._look_at_clock()
        self._look_at_rows()
        self._look_at_checkpoints()
        for prefix in (keys.ROLLOUTS, keys.REWARDS):
            for file in files_of_rounds(self.layout, prefix, last=None if everything else RECENT):
                self._look_at_file(file)
        if everything:
            self.violations += [f"{path} was there and is gone" for path in self.acknowledged if not path.exists()]

    def _validate(self) -> None:
        """As `swarm validate --partial` does, in the midst of whatever the nodes write and die of."""
        for check in validate(self.layout.run, partial=True).checks:
            for problem in check.problems:
                self._say(f"validate --partial, look {self.looks}: {check.name}: {problem}")

    def _look_at_clock(self) -> None:
        try:
            state = read_state(self.layout.run)
        except ProtocolError as error:
            self._say(f"the state file was not whole: {error}")
            return
        if state is None:
            if self.clock != (-1, -1):
                self._say("the state file was there and is gone")
            return
        now = (state.round, state.stage)
        if now < self.clock:
            self._say(f"the clock went back from {self.clock} to {now}")
        self.clock = max(self.clock, now)

    def _look_at_rows(self) -> None:
        for node in nodes_with_logs(self.layout.run):
            tail = self._tails.setdefault(node, GrowingLines(self.layout.run.store, keys.metrics(node)))
            rows = self.rows.setdefault(node, [])
            for line in (line for part in tail.look() for line in part.records):
                try:
                    row = msgspec.json.decode(line, type=MetricsRow)
                except msgspec.DecodeError:
                    self._say(f"{node} has a line that is no row: {line[:80]!r}")
                    continue
                if rows and row.round <= rows[-1].round:
                    self._say(f"{node} wrote a row for round {row.round} after that for round {rows[-1].round}")
                rows.append(row)

    def _look_at_checkpoints(self) -> None:
        saved = saved_rounds(self.layout.run)
        places = [(node, round_) for node, rounds in saved.items() for round_ in rounds]
        for node, round_ in places:
            file = self.layout.checkpoint(round_, node) / "node.json"
            if (node, round_) in self.checkpoints:
                continue
            try:
                state = msgspec.json.decode(file.read_bytes(), type=NodeState)
            except FileNotFoundError:
                continue  # pruned meanwhile
            except msgspec.DecodeError as error:
                self._say(f"{file} was not whole: {error}")
                continue
            self.checkpoints[node, round_] = state

    def _look_at_file(self, file: Path) -> None:
        digest = hashlib.blake2b(file.read_bytes()).digest()
        if self.acknowledged.setdefault(file, digest) != digest:
            self._say(f"{file} was there, and holds something else now")

    def _say(self, violation: str) -> None:
        if violation not in self.violations:
            self.violations.append(violation)


def files_of_rounds(layout: Layout, prefix: str, *, last: int | None) -> Iterator[Path]:
    """The nodes' files of all rounds, or of the last few."""
    store = layout.run.store
    rounds = rounds_in(store, prefix)
    for round_ in rounds[-last:] if last else rounds:
        for stage in entries(store, f"{prefix}/round_{round_}"):
            place = f"{prefix}/round_{round_}/{stage.name}"
            yield from (layout.root / place / f"{node}.json" for node in nodes_in(store, place))
