"""Watches the nodes' registrations for some seconds, reading only: heartbeats, clocks, rounds behind, doubled ids."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from swarm.errors import StoreError
from swarm.records.files import PeerReader, read_clock
from swarm.records.liveness import STANDBY, STOPPED
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import PeerFile

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
    lags: list[int] = []
    """Per change of a node that has begun: rounds by which it was behind the front just then. (What it wrote at its
    last beat is old news a moment later: short rounds pass by the dozen between two looks at different files.)"""

    @property
    def moved(self) -> bool:
        return self.beats > 0

    @property
    def alive(self) -> bool:
        """Tells whether its heartbeat moved, and it has not said goodbye."""
        return self.moved and self.peer.status != STOPPED

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
    def lag(self) -> int | None:
        """Returns rounds behind the front, None if not seen; the smallest, since a round may open at any time."""
        return min(self.lags, default=None)

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
        peers = _peers(reader)
        front = _front(run, peers)
        for peer in peers:
            _see(nodes, peer, written_at, timing.wall, front, dated)
        passed = timing.monotonic() - started
        if passed >= seconds or all(watch.said_goodbye for watch in nodes.values()):
            return WatchedNodes(passed, nodes)
        pause = max(dated.look_every if dated else LOOK_EVERY, timing.monotonic() - looked)
        timing.sleep(min(pause, seconds - passed) if dated else pause)


def _peers(reader: PeerReader) -> list[PeerFile]:
    with contextlib.suppress(StoreError):  # another area says that the folder cannot be listed
        return reader.read()
    return []


def _front(run: Run, peers: list[PeerFile]) -> int:
    """Returns the newest round that anybody knows of, -1 before the first."""
    state = read_clock(run).state
    return max([peer.round for peer in peers] + [state.round if state and not state.finished else -1])


def _see(
    nodes: dict[str, Watch],
    peer: PeerFile,
    written_at: Callable[[str], float],
    wall: Callable[[], float],
    front: int,
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
    if peer.round >= 0:
        watch.lags.append(front - peer.round)
