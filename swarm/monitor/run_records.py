"""Everything that a run left in its folder and that the checks of `swarm validate` need more than once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.folder.records import (
    Counted,
    Rows,
    Tail,
    count_files,
    nodes_with_logs,
    read_peers,
    read_rows,
    read_state_or_problem,
)
from swarm.monitor.text import shorten
from swarm.protocol.layout import Layout
from swarm.protocol.messages import PeerFile, StateFile

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


class RunRecords(NamedTuple):
    """One run."""

    layout: Layout
    partial: bool
    """It need not have finished."""
    state: StateFile | None
    state_problem: str
    peers: dict[str, PeerFile]
    rollouts: Counted
    rewards: Counted
    logs: dict[str, NodeLogs]

    @property
    def rounds_done(self) -> int:
        """By the clock; without a readable one, what the rewards suggest."""
        if self.state is not None:
            return self.state.round
        return 1 + max((key.round for key in self.rewards.nodes), default=-1)

    def workers(self) -> list[str]:
        """Nodes that train: those that say so, and those that have left rewards or metrics."""
        registered = {node for node, peer in self.peers.items() if peer.node_role == "worker"}
        rewarded = {node for nodes in self.rewards.nodes.values() for node in nodes}
        return sorted(registered | rewarded | {node for node, logs in self.logs.items() if logs.metrics.rows})


def read_run(layout: Layout, *, partial: bool) -> RunRecords:
    """Read a run. Rollout and reward files are only counted here; the checks open them one at a time."""
    state, problem = read_state_or_problem(layout)
    return RunRecords(
        layout=layout,
        partial=partial,
        state=state,
        state_problem=problem or f"there is no {layout.state_file}",
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
    size = stdout.stat().st_size if stdout.is_file() else 0
    rows = read_rows(layout.metrics_file(node))
    return NodeLogs(rows, events, junk, tail.torn, size, overdue, alarms + _printed(stdout))


def _printed(stdout: Path) -> list[str]:
    lines = enumerate(Tail(stdout).read(), 1)
    return [_alarm(stdout, number, line) for number, line in lines if _OUT_OF_MEMORY.search(line)]


def _alarm(file: Path, number: int, line: bytes) -> str:
    return f"{file}:{number}: {shorten(line.decode('utf-8', 'replace'), 160)}"
