"""Who is alive, judged by change and by this node's own clock: clocks of other hosts may be a day off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from swarm.wire.messages import PeerFile

STOPPED, STARTING, ACTIVE, STANDBY = "stopped", "starting", "active", "standby"


MOST_LIVES = 8
"""Incarnations of one peer that are remembered, should somebody make them up."""


@dataclass
class _Seen:
    beats: dict[str, int]
    """Incarnation -> its highest beat; the last one is the present one."""
    changed_at: float
    status: str
    role: str

    @property
    def present(self) -> tuple[str, int]:
        return list(self.beats.items())[-1]

    def moves_to(self, incarnation: str, beat: int) -> bool:
        """Take note of a beat; False if it is no later one, of the present life or of one before."""
        known = self.beats.get(incarnation)
        if known is not None and (beat == known if not incarnation else beat <= known):
            return False
        self.beats.pop(incarnation, None)
        self.beats[incarnation] = beat
        if len(self.beats) > MOST_LIVES:
            del self.beats[next(iter(self.beats))]
        return True


class Liveness:
    """Tracks heartbeats. A peer is alive while its heartbeat moves; `stopped` is believed at once."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._seen: dict[str, _Seen] = {}

    def observe(self, peer: PeerFile, now: float, wall: float) -> None:
        """Take note of one peer file.

        At first sight nobody knows whether it moves: it counts as alive only if its own time says that it is fresh,
        so that the ghosts of a killed run hold nobody up and a peer with a wrong clock is in after one more beat.

        Args:
            now: this process's monotonic seconds.
            wall: Unix seconds.
        """
        seen = self._seen.get(peer.peer_id)
        if seen is None:
            age = abs(wall - peer.last_seen)
            self._seen[peer.peer_id] = _Seen(
                {peer.incarnation: peer.beat}, now - min(age, self._timeout), peer.status, peer.node_role
            )
            return
        if seen.moves_to(peer.incarnation, peer.beat):
            seen.changed_at = now
        elif peer.incarnation and (peer.incarnation, peer.beat) != seen.present:
            return  # an old file that somebody put back, or that a cache still has
        seen.status, seen.role = peer.status, peer.node_role

    def moving(self, now: float) -> frozenset[str]:
        """The ids of all whose heartbeat moves, whatever they are or say of themselves."""
        return frozenset(node for node, seen in self._seen.items() if now - seen.changed_at < self._timeout)

    def live(self, now: float, *, role: str, statuses: tuple[str, ...] = (ACTIVE,)) -> frozenset[str]:
        """The ids of live peers of one role in one of these statuses."""
        return frozenset(
            node
            for node, seen in self._seen.items()
            if seen.role == role and seen.status in statuses and now - seen.changed_at < self._timeout
        )


class Machine(Protocol):
    """The machine that a viewer runs on."""

    @property
    def host(self) -> str:
        """As registrations name it."""

    def is_running(self, pid: int, started_at: float) -> bool:
        """Whether the process with this id is still the one that started then."""


def is_alive(peer: PeerFile, wall: float, timeout: float, here: Machine | None = None) -> bool:
    """Whether a node runs, for those who look once: it has not said goodbye, and its process or heartbeat is there.

    On this machine the process is asked for. Of another machine a heartbeat is believed that is not older than
    `timeout`: its time is by that machine's clock, so the two must agree on the time; nodes themselves judge otherwise.

    Args:
        wall: Unix seconds.
        here: None: no process is asked for.
    """
    if peer.status == STOPPED:
        return False
    if here is not None and peer.host == here.host:
        return here.is_running(peer.pid, peer.process_started_at)
    return wall - peer.last_seen <= timeout
