"""What every area of the doctor may look at, each part read once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from swarm.config import Settings
from swarm.records.growing import Growing
from swarm.records.listing import nodes_with_logs
from swarm.records.reader import snapshot
from swarm.records.rows import Glance, parse_row
from swarm.store.health import Health, Survey
from swarm.store.run import Run
from swarm.views.doctor.watching import Watched, watch_nodes
from swarm.wire import keys

RECENT = 20
"""Rounds of each node that are looked at: what was long ago is over."""


class Timing(NamedTuple):
    """Time, as arguments; tests put their own in."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], None]


class NodeLogs(NamedTuple):
    """What the growing files of one node say."""

    recent: list[Glance]
    """Its last rows."""
    said: Mapping[str, str]
    """The texts of its last start-up event, such as package -> version."""
    torn: bool
    """A file ends within a line."""


@dataclass
class CheckContext:
    """One place, and one experiment in it."""

    settings: Settings
    run: Run | None
    """None: there is no such experiment."""
    health: Health
    """Of the place."""
    seconds: float
    """How long nodes are watched."""
    timing: Timing

    @cached_property
    def survey(self) -> Survey:
        """Everything that lies in the experiment."""
        return self.health.survey()

    @cached_property
    def watched(self) -> Watched:
        """What the nodes did while they were watched."""
        if self.run is None:
            return Watched(0.0, {})
        return watch_nodes(self.run, self.seconds, *self.timing, self.health.written_at)

    @property
    def alive(self) -> set[str]:
        """Nodes that may be writing just now."""
        return {name for name, watch in self.watched.nodes.items() if watch.alive}

    @cached_property
    def logs(self) -> dict[str, NodeLogs]:
        """Node -> its logs."""
        return {node: read_logs(self.run, node) for node in nodes_with_logs(self.run)} if self.run else {}

    @cached_property
    def server_skew(self) -> float:
        """Seconds by which the clock of the place is ahead of ours."""
        return self.health.skew(self.timing.wall)

    @cached_property
    def wants_coordinator(self) -> bool:
        """Rounds are opened by a coordinator; what the experiment was made with counts, else the settings."""
        experiment = snapshot(self.run).experiment if self.run else None
        made = experiment.identity.get("clock", "coordinator") if experiment else self.settings.clock
        return made == "coordinator"


def read_logs(run: Run, node: str) -> NodeLogs:
    """Read one node's rows and events once through."""
    rows, events = (Growing(run.store, key) for key in (keys.metrics(node), keys.events(node)))
    lines = (line for part in rows.look() for line in part.records)
    recent = deque((row for line in lines if (row := parse_row(line, Glance))), maxlen=RECENT)
    starts = [line for part in events.look() for line in part.records if b'"node.starting"' in line]
    said = (texts for line in reversed(starts) if (texts := _texts(line)).get("event") == "node.starting")
    return NodeLogs(list(recent), next(said, {}), rows.torn or events.torn)


def _texts(line: bytes) -> dict[str, str]:
    """The texts of one JSON line, none of anything else."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, str)}
