"""Everything that a run left in its folder and that the checks of `swarm validate` need more than once."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.records.read import (
    Counted,
    Rows,
    Tail,
    count_files,
    nodes_with_logs,
    read_peers,
    read_rows,
    read_state_or_problem,
)
from swarm.views.finished import common_end, finished_after, keeps_own_clocks
from swarm.views.text import shorten
from swarm.wire.layout import Layout
from swarm.wire.messages import PeerFile, StateFile

_OUT_OF_MEMORY = re.compile(rb"out of memory|OutOfMemory|MemoryError|cannot allocate memory", re.IGNORECASE)
_CRASHED = "process.crashed"


class NodeLogs(NamedTuple):
    """One node's log folder."""

    metrics: Rows
    events: int
    """Whole lines of training_events.jsonl."""
    junk: int
    """Of these, lines that are no event."""
    torn: bool
    """The events end in a line without its newline."""
    stdout_bytes: int
    overdue: set[int]
    """Rounds that a coordinator closed at the end of their interval."""
    alarms: list[str]
    """Crashes and lines that speak of memory running out, each with its file and line."""
    finished_after: int | None
    """The rounds after which it ended because there were no more."""


class RunRecords(NamedTuple):
    """One run."""

    layout: Layout
    partial: bool
    """It need not have finished."""
    own_clocks: bool
    """An experiment without a coordinator."""
    state: StateFile | None
    state_problem: str
    """Why there is none; empty where none is needed."""
    peers: dict[str, PeerFile]
    rollouts: Counted
    rewards: Counted
    logs: dict[str, NodeLogs]

    @property
    def rounds_done(self) -> int:
        """By the clock and those who went on without it; where there is neither, what the rewards suggest."""
        own = [row.round for logs in self.logs.values() for row in logs.metrics.rows if row.clock == "own"]
        if self.state is not None:
            return max(self.state.round, 1 + max(own, default=-1))
        return 1 + max(own or (key.round for key in self.rewards.nodes), default=-1)

    @property
    def finished_by_themselves(self) -> int | None:
        """The number of rounds after which all workers ended, whatever the clock said."""
        return common_end(self.logs[node].finished_after if node in self.logs else None for node in self.workers())

    def workers(self) -> list[str]:
        """Nodes that train: those that say so, and those that have left rewards or metrics."""
        registered = {node for node, peer in self.peers.items() if peer.node_role == "worker"}
        rewarded = {node for nodes in self.rewards.nodes.values() for node in nodes}
        return sorted(registered | rewarded | {node for node, logs in self.logs.items() if logs.metrics.rows})


def read_run(layout: Layout, *, partial: bool) -> RunRecords:
    """Read a run. Rollout and reward files are only counted here; the checks open them one at a time."""
    state, problem = read_state_or_problem(layout)
    own_clocks = keeps_own_clocks(layout)
    return RunRecords(
        layout=layout,
        partial=partial,
        own_clocks=own_clocks,
        state=state,
        state_problem=problem or ("" if own_clocks else f"there is no {layout.state_file}"),
        peers={peer.peer_id: peer for peer in read_peers(layout)},
        rollouts=count_files(layout.rollouts),
        rewards=count_files(layout.rewards),
        logs={node: _logs(layout, node) for node in nodes_with_logs(layout)},
    )


class _Event(msgspec.Struct):
    event: str
    timestamp: float
    round: int | None = None
    reason: object = None

    @property
    def closed_overdue(self) -> int | None:
        """The round that ended because its interval was over."""
        closes = self.event in ("round.opened", "round.last_closed") and self.reason == "interval"
        return self.round - 1 if closes and self.round else None


def _logs(layout: Layout, node: str) -> NodeLogs:
    file = layout.events_file(node)
    tail, events, junk, alarms = Tail(file), 0, 0, []
    overdue: set[int] = set()
    for events, line in enumerate(tail.read(), 1):
        try:
            event = msgspec.json.decode(line, type=_Event)
            crashed = event.event == _CRASHED
            overdue |= {event.closed_overdue} - {None}  # type: ignore[arg-type]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            junk, crashed = junk + 1, False
        if crashed or _OUT_OF_MEMORY.search(line):
            alarms.append(_alarm(file, events, line))
    stdout = layout.stdout_file(node)
    size = _size(stdout)
    rows = read_rows(layout.metrics_file(node))
    end = finished_after(layout, node)
    return NodeLogs(rows, events, junk, tail.torn, size, overdue, alarms + _printed(stdout), end)


def _size(file: Path) -> int:
    """Bytes of a file, 0 for what is none or cannot be looked at."""
    try:
        found = os.lstat(file)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _printed(stdout: Path) -> list[str]:
    lines = enumerate(Tail(stdout).read(), 1)
    return [_alarm(stdout, number, line) for number, line in lines if _OUT_OF_MEMORY.search(line)]


def _alarm(file: Path, number: int, line: bytes) -> str:
    return f"{file}:{number}: {shorten(line.decode('utf-8', 'replace'), 160)}"
