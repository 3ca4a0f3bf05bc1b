"""What a check of the doctor is given, each part read once, and what it gives: findings.

CheckContext ─┬ survey, server_skew           what lies there
              └ watched                       the nodes' registrations, watched for some seconds: heartbeats,
                                              clocks, doubled ids
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec

from swarm.config import Settings
from swarm.errors import StoreError
from swarm.records.files import PeerReader
from swarm.records.liveness import STANDBY, STOPPED
from swarm.records.reader import RunSnapshot, snapshot
from swarm.store.health import BucketHealth, Health, Survey
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import PeerFile


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
    """Such as `folder` or `nodes`; examine.py names it."""
    check: str
    """What was checked."""
    verdict: Verdict
    measured: str
    """The figure, with its unit and what it was held against."""
    fix: str = ""
    """One line that fixes it; empty where nothing is wrong."""


def ok(check: str, measured: str) -> Finding:
    return Finding("", check, Verdict.OK, measured)


def warning(check: str, measured: str, fix: str) -> Finding:
    return Finding("", check, Verdict.WARNING, measured, fix)


def failure(check: str, measured: str, fix: str) -> Finding:
    return Finding("", check, Verdict.FAILURE, measured, fix)


def graded(check: str, measured: str, fix: str, *, fails: bool = False, warns: bool = False) -> Finding:
    """Returns a figure that is in order unless it is a failure, or else a warning; the fix is of both."""
    if fails:
        return failure(check, measured, fix)
    return warning(check, measured, fix) if warns else ok(check, measured)


class Diagnosis(msgspec.Struct, frozen=True):
    """All that was found."""

    experiment: str
    path: str
    ok: bool
    """There is no failure; there may be warnings."""
    findings: tuple[Finding, ...]


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

    @cached_property
    def now(self) -> RunSnapshot | None:
        """The experiment by now; None: there is none."""
        return snapshot(self.run) if self.run else None

    @cached_property
    def survey(self) -> Survey:
        """Everything that lies in the experiment."""
        return self.health.survey()

    @cached_property
    def watched(self) -> WatchedNodes:
        """Watches the nodes for some seconds, and returns what they did."""
        if self.run is None:
            return WatchedNodes(0.0, {})
        if not isinstance(self.health, BucketHealth):
            return watch_nodes(self.run, self.seconds, self.timing, self.health.written_at)
        dated = Dated(self.settings.cadence.reconcile_interval, self.server_skew)
        return watch_nodes(self.run, self.seconds, self.timing, self.health.written_at, dated)

    @property
    def alive(self) -> set[str]:
        """Returns nodes that may be writing just now."""
        return {name for name, watch in self.watched.nodes.items() if watch.alive}

    @cached_property
    def server_skew(self) -> float:
        """Returns seconds by which the clock of the place is ahead of ours."""
        return self.health.skew(self.timing.wall)

    @cached_property
    def wants_coordinator(self) -> bool:
        """Rounds are opened by a coordinator; what the experiment was made with counts, else the settings."""
        experiment = self.now.experiment if self.now else None
        made = experiment.identity.get("clock", "coordinator") if experiment else self.settings.clock
        return made == "coordinator"


LOOK_EVERY = 0.1
"""Seconds. A heartbeat is seen to within this, and so is a node's clock. Half the time at most goes into looking."""


class Timing(NamedTuple):
    """Time, as an argument."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], None]


class Dated(NamedTuple):
    """A place that is looked at seldom: when a node beat is known by the date of its file."""

    look_every: float
    server_skew: float
    """Seconds by which the clock of the place is ahead of ours."""


class Watch(msgspec.Struct):
    """Holds what one registration did while it was watched."""

    peer: PeerFile
    """Registration as last seen."""
    file_time: float
    """The file's own time when last seen, by the file server's clock; 0.0 where that cannot be told."""
    incarnations: list[str]
    """In the order in which they wrote it; one that comes back is there again."""
    beats: int = 0
    """Changes seen."""
    skews: list[float] = []
    """Per change: the node's clock minus ours, seconds, too low by the time until we saw it."""

    @property
    def alive(self) -> bool:
        """Tells whether its heartbeat moved, and it has not said goodbye."""
        return self.beats > 0 and not self.said_goodbye

    @property
    def said_goodbye(self) -> bool:
        return self.peer.status == STOPPED

    @property
    def stands_by(self) -> bool:
        """A coordinator that keeps no time while another one does."""
        return self.peer.status == STANDBY

    @property
    def doubled(self) -> bool:
        """Two processes write this file by turns."""
        return len(self.incarnations) > len(set(self.incarnations))

    @property
    def skew(self) -> float | None:
        """Returns the node's clock minus ours, seconds; None if no beat was seen. The quickest sighting errs least."""
        return max(self.skews, default=None)


class WatchedNodes(msgspec.Struct, frozen=True):
    """Holds what all watched nodes did."""

    seconds: float
    """How long they were watched."""
    nodes: dict[str, Watch]

    def alive(self, role: str) -> list[str]:
        """Returns names of the live nodes of one role, sorted; standbys are not counted."""
        return sorted(n for n, w in self.nodes.items() if w.alive and w.peer.node_role == role and not w.stands_by)


def watch_nodes(
    run: Run, seconds: float, timing: Timing, written_at: Callable[[str], float], dated: Dated | None = None
) -> WatchedNodes:
    """Read the registrations again and again; at once over where everybody has said goodbye.

    Args:
        written_at: when the file of a key was written, by the clock of the place.
        dated: the place is looked at seldom; None: often.
    """
    started, nodes, reader = timing.monotonic(), dict[str, Watch](), PeerReader(run)
    while True:
        looked = timing.monotonic()
        peers = list[PeerFile]()
        with suppress(StoreError):  # another area says that the folder cannot be listed
            peers = reader.read().peers
        for peer in peers:
            _see(nodes, peer, written_at, timing.wall, dated)
        passed = timing.monotonic() - started
        if passed >= seconds or all(watch.said_goodbye for watch in nodes.values()):
            return WatchedNodes(passed, nodes)
        pause = max(dated.look_every if dated else LOOK_EVERY, timing.monotonic() - looked)
        timing.sleep(min(pause, seconds - passed) if dated else pause)


def _see(
    nodes: dict[str, Watch],
    peer: PeerFile,
    written_at: Callable[[str], float],
    wall: Callable[[], float],
    dated: Dated | None,
) -> None:
    mark, watch, now = (peer.incarnation, peer.beat), nodes.get(peer.peer_id), wall()
    if watch is None:
        nodes[peer.peer_id] = Watch(peer, written_at(keys.peer(peer.peer_id)), [peer.incarnation])
        return
    if mark == (watch.peer.incarnation, watch.peer.beat):
        return
    if peer.incarnation != watch.incarnations[-1]:
        watch.incarnations.append(peer.incarnation)
    watch.peer, watch.beats, watch.file_time = peer, watch.beats + 1, written_at(keys.peer(peer.peer_id))
    watch.skews.append(peer.last_seen - (watch.file_time - dated.server_skew if dated else now))
