"""Decides who is alive, judged by change and by this node's own clock: clocks of other hosts may be a day off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from swarm.wire.messages import PeerFile

STOPPED, STARTING, ACTIVE, STANDBY = "stopped", "starting", "active", "standby"
GENERATOR = "generator"
"""Role of a node that answers and trains nothing; nobody waits for it unless it registers as a worker."""
PERSON = "person"
"""Role and model of a generator whose answers are typed."""
EVALUATOR = "evaluator"
"""Role of a node that verifies what others answer: it has rows and votes, no rollouts and no rewards."""

MOST_REMEMBERED = 4096
"""Peers that are remembered, those that moved last; names cost a stranger nothing."""
MOST_LIVES = 16
"""Incarnations of one peer that are remembered. Of those forgotten it is kept how late they began: none of them is
taken for a new one at once, nor any other that began as early."""
RISES = 3
"""A heartbeat below one that was seen already counts after it has risen so many times in a row."""
LONGEST_INCARNATION = 64
"""Characters of it that are told apart."""


class _LiveThen(NamedTuple):
    """Holds who was alive, which stays true until somebody comes, goes, changes or times out."""

    since: float
    oldest: float
    """When the heartbeat changed that will time out first."""
    nodes: frozenset[str]


class _Life(NamedTuple):
    began: float
    """Start as its registration says, Unix seconds."""
    beat: int
    """The highest that was seen."""


class _Superseded(NamedTuple):
    """Beats of one incarnation below what was seen already: of an old file that was put back, or of a live node in
    whose name somebody wrote its highest beat, or later lives."""

    incarnation: str
    beat: int
    rises: int = 0

    def then(self, incarnation: str, beat: int) -> _Superseded:
        """Returns this with the next beat of them."""
        if incarnation != self.incarnation or beat < self.beat:
            return _Superseded(incarnation, beat)
        return self._replace(beat=beat, rises=self.rises + (beat > self.beat))


@dataclass
class _Seen:
    lives: dict[str, _Life]
    """By incarnation; the last one is the present one."""
    changed_at: float
    status: str
    role: str
    forgotten_until: float = -math.inf
    """When the latest of the forgotten lives began."""
    superseded: _Superseded | None = None
    moved: bool = False
    """What was read last was a later beat than before."""

    def moves_to(self, incarnation: str, life: _Life) -> bool:
        """Take note of a beat; False if it is no later one of its life and does not rise."""
        if not self._is_later(incarnation, life) and not self._rises(incarnation, life.beat):
            return False
        self.superseded = None
        self.lives.pop(incarnation, None)
        self.lives[incarnation] = life
        if len(self.lives) > MOST_LIVES:
            forgotten = self.lives.pop(next(iter(self.lives)))
            self.forgotten_until = max(self.forgotten_until, forgotten.began)
        return True

    def _is_later(self, incarnation: str, life: _Life) -> bool:
        known = self.lives.get(incarnation)
        if known is None:
            return life.began > self.forgotten_until
        return life.beat > known.beat if incarnation else life.beat != known.beat

    def _rises(self, incarnation: str, beat: int) -> bool:
        if not incarnation or self.shows(incarnation, beat):
            return False
        before = self.superseded or _Superseded(incarnation, beat)
        self.superseded = before.then(incarnation, beat)
        return self.superseded.rises >= RISES

    def shows(self, incarnation: str, beat: int) -> bool:
        """Tells whether this is what was seen last."""
        present = next(reversed(self.lives))
        return (present, self.lives[present].beat) == (incarnation, beat)


class Liveness:
    """Tracks heartbeats. A peer is alive while its heartbeat moves; `stopped` is believed at once."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._seen: dict[str, _Seen] = {}
        self._live: dict[tuple[str, tuple[str, ...]], _LiveThen] = {}
        """Role and statuses -> the answer of before, as long as it is true: it is asked for at every look, of a
        thousand peers."""

    def observe(self, peer: PeerFile, now: float, wall: float) -> None:
        """Take note of one peer file.

        At first sight nobody knows whether it moves: it counts as alive only if its own time says that it is fresh,
        so that the ghosts of a killed run hold nobody up and a peer with a wrong clock is in after one more beat.

        Args:
            now: this process's monotonic seconds.
            wall: Unix seconds.
        """
        incarnation, life = peer.incarnation[:LONGEST_INCARNATION], _Life(peer.registered_at, peer.beat)
        seen = self._seen.get(peer.peer_id)
        if seen is None:
            age = abs(wall - peer.last_seen)
            changed_at = now - min(age, self._timeout)
            self._seen[peer.peer_id] = _Seen({incarnation: life}, changed_at, peer.status, peer.node_role)
            self._live.clear()
            if len(self._seen) > MOST_REMEMBERED:
                del self._seen[next(iter(self._seen))]
            return
        if seen.moves_to(incarnation, life):
            self._move(seen, now)
            seen.moved = True
            self._seen[peer.peer_id] = self._seen.pop(peer.peer_id)  # the one that moved last is the last
        elif incarnation and not seen.shows(incarnation, life.beat):
            seen.moved = False
            return  # an old file that somebody put back, or that a cache still has
        if (seen.status, seen.role) != (peer.status, peer.node_role):
            seen.status, seen.role = peer.status, peer.node_role
            self._live.clear()

    def _move(self, seen: _Seen, now: float) -> None:
        if now - seen.changed_at >= self._timeout:  # it comes back; of others it stays true that they are alive
            self._live.clear()
        seen.changed_at = now

    def stir(self, peers: Iterable[str], now: float) -> None:
        """Takes changed registrations that were not read as a sign of life of those whose beats were seen to move when
        they were read last."""
        for peer in peers:
            if (seen := self._seen.get(peer)) and seen.moved and seen.status == ACTIVE:
                self._move(seen, now)

    def moving(self, now: float) -> frozenset[str]:
        """Returns the ids of all whose heartbeat moves, whatever they are or say of themselves."""
        return frozenset(node for node, seen in self._seen.items() if now - seen.changed_at < self._timeout)

    def known(self, *, role: str) -> frozenset[str]:
        """Returns the ids of all of a role whose registrations were read, dead or alive."""
        return frozenset(node for node, seen in self._seen.items() if seen.role == role)

    def live(self, now: float, *, role: str, statuses: tuple[str, ...] = (ACTIVE,)) -> frozenset[str]:
        """Returns the ids of live peers of one role in one of these statuses."""
        known = self._live.get((role, statuses))
        if known is None or now < known.since or now - known.oldest >= self._timeout:
            changed = {
                node: seen.changed_at
                for node, seen in self._seen.items()
                if seen.role == role and seen.status in statuses and now - seen.changed_at < self._timeout
            }
            known = _LiveThen(now, min(changed.values(), default=math.inf), frozenset(changed))
            self._live[role, statuses] = known
        return known.nodes


class Machine(Protocol):
    """The machine that this process runs on."""

    @property
    def host(self) -> str:
        """Returns this machine's name as registrations write it."""

    def is_running(self, pid: int, started_at: float) -> bool:
        """Tells whether the process with this id is still the one that started then."""


def process_runs(peer: PeerFile, here: Machine) -> bool | None:
    """Tells whether the process that wrote a registration still runs; None, nobody can tell, if on another machine."""
    return here.is_running(peer.pid, peer.process_started_at) if peer.host == here.host else None


def is_alive(peer: PeerFile, wall: float, timeout: float, here: Machine | None = None) -> bool:
    """Tells whether a node runs, for those who look once: it has not said goodbye, and its process or heartbeat is
    there.

    On this machine the process is asked for. Of another machine a heartbeat is believed that is not older than
    `timeout`: its time is by that machine's clock, so the two must agree on the time; nodes themselves judge otherwise.

    Args:
        wall: Unix seconds.
        here: None: no process is asked for.
    """
    if peer.status == STOPPED:
        return False
    runs = process_runs(peer, here) if here else None
    return wall - peer.last_seen <= timeout if runs is None else runs
