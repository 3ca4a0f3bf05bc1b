"""Holds what a check of the doctor is given, each part read once, and what it gives: findings."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import msgspec

from swarm.config import Settings
from swarm.harmless import printable
from swarm.records.growing import GrowingLines
from swarm.records.listing import nodes_with_logs
from swarm.records.reader import snapshot
from swarm.records.starts import last_start
from swarm.records.table import Odd, columns, parse_rows
from swarm.store.health import Health, Survey
from swarm.store.replication import Replication
from swarm.store.run import Run
from swarm.views.doctor.watching import Dated, Timing, WatchedNodes, watch_nodes
from swarm.wire import keys
from swarm.wire.messages import MetricsRow

RECENT = 20
"""Rounds of each node that are looked at: what was long ago is over."""
_LOOKED_AT = columns("refused_by_peer", "quarantined", "publish_to_pool")


class Verdict(StrEnum):
    """Says how bad it is."""

    OK = "ok"
    WARNING = "warning"
    """The swarm goes on, but slower, blinder or with less than it could have."""
    FAILURE = "failure"
    """The swarm will stop, lose something, or do something wrong."""


class Finding(msgspec.Struct, frozen=True):
    """One check."""

    area: str
    """Such as `folder` or `nodes`."""
    check: str
    """What was checked."""
    verdict: Verdict
    measured: str
    """The figure, with its unit and what it was held against."""
    fix: str = ""
    """One line that fixes it; empty where nothing is wrong."""


class Area(msgspec.Struct, frozen=True):
    """Makes the findings of one area. Names of files and nodes are anybody's, so all text is made printable here."""

    name: str

    def ok(self, check: str, measured: str) -> Finding:
        return Finding(self.name, check, Verdict.OK, printable(measured))

    def graded(self, check: str, measured: str, fix: str, *, failure: bool = False, warning: bool = False) -> Finding:
        """Returns a figure that is in order unless it is a failure, or else a warning; the fix is of both."""
        if failure:
            return self.failure(check, measured, fix)
        return self.warning(check, measured, fix) if warning else self.ok(check, measured)

    def warning(self, check: str, measured: str, fix: str) -> Finding:
        return Finding(self.name, check, Verdict.WARNING, printable(measured), printable(fix))

    def failure(self, check: str, measured: str, fix: str) -> Finding:
        return Finding(self.name, check, Verdict.FAILURE, printable(measured), printable(fix))


class Diagnosis(msgspec.Struct, frozen=True):
    """All that was found."""

    experiment: str
    path: str
    ok: bool
    """There is no failure; there may be warnings."""
    findings: tuple[Finding, ...]


class NodeLogs(NamedTuple):
    """Holds what the growing files of one node say."""

    recent: list[MetricsRow]
    """Its last rows."""
    versions: Mapping[str, str]
    """Package -> version, as its last start has them."""
    torn: bool
    """Its rows end within a line."""
    delays: list[float]
    """Delays of its last rows: seconds from each file's publication until the node saw it."""


@dataclass
class CheckContext:
    """One place, and one experiment in it."""

    settings: Settings
    run: Run | None
    """None: there is no such experiment."""
    health: Health
    """Health of the place."""
    seconds: float
    """How long nodes are watched."""
    timing: Timing
    replication: Replication | None = None
    """Replication of a place that a tool replicates."""

    @cached_property
    def survey(self) -> Survey:
        """Everything that lies in the experiment."""
        return self.health.survey()

    @cached_property
    def watched(self) -> WatchedNodes:
        """Watches the nodes for some seconds, and returns what they did."""
        if self.run is None:
            return WatchedNodes(0.0, {})
        if self.health.bucket is None:
            return watch_nodes(self.run, self.seconds, self.timing, self.health.written_at)
        dated = Dated(self.settings.cadence.reconcile_interval, self.server_skew)
        return watch_nodes(self.run, self.seconds, self.timing, self.health.written_at, dated)

    @property
    def alive(self) -> set[str]:
        """Returns nodes that may be writing just now."""
        return {name for name, watch in self.watched.nodes.items() if watch.alive}

    @cached_property
    def logs(self) -> dict[str, NodeLogs]:
        """Returns node -> its logs."""
        return {node: read_logs(self.run, node) for node in nodes_with_logs(self.run)} if self.run else {}

    @cached_property
    def server_skew(self) -> float:
        """Returns seconds by which the clock of the place is ahead of ours."""
        return self.health.skew(self.timing.wall)

    @cached_property
    def wants_coordinator(self) -> bool:
        """Rounds are opened by a coordinator; what the experiment was made with counts, else the settings."""
        experiment = snapshot(self.run).experiment if self.run else None
        made = experiment.identity.get("clock", "coordinator") if experiment else self.settings.clock
        return made == "coordinator"


def read_logs(run: Run, node: str) -> NodeLogs:
    """Read one node's rows once through, and its last start."""
    rows, start = GrowingLines(run.store, keys.metrics(node)), last_start(run, node)
    found = (row for part in rows.look() for row in parse_rows(part.records, _LOOKED_AT, Odd()))
    recent = deque(found, maxlen=RECENT)
    delays = [*chain.from_iterable(row.publish_to_pool for row in recent)]
    return NodeLogs([*recent], start.versions if start else {}, rows.torn, delays)
