"""Tells a registration that beats from one that merely lies there. Pure.

A registration is a file, and whoever can write files can write one; so nobody gives way to one for what it says, but
only after one and the same incarnation in it has been seen to beat again and again.
"""

from __future__ import annotations

from typing import NamedTuple

from swarm.wire.messages import PeerFile

PROOF_BEATS = 3
"""Later beats of one incarnation that show that it lives; and the heartbeat intervals in which they are watched for."""
MOST_WATCHED = 4096
"""Names that are remembered, the latest."""


class _Watched(NamedTuple):
    incarnation: str
    beat: int
    """The highest that was seen."""
    moved: int
    """How often it was seen to grow."""


class Heartbeats:
    """Counts how often each of some registrations was seen to beat."""

    def __init__(self, proof: int = PROOF_BEATS) -> None:
        self._proof = proof
        self._watched: dict[str, _Watched] = {}

    @property
    def any_moved(self) -> bool:
        """One of them was seen to grow, be it once."""
        return any(watched.moved for watched in self._watched.values())

    def observe(self, peer: PeerFile) -> bool:
        """Take note of one look; whether its incarnation has been seen to beat.

        Another incarnation begins anew, so that files which are put back by turns do not look like one that lives.
        """
        before = self._watched.pop(peer.peer_id, None)
        if before is None or before.incarnation != peer.incarnation:
            now = _Watched(peer.incarnation, peer.beat, 0)
        elif peer.beat > before.beat:
            now = _Watched(peer.incarnation, peer.beat, before.moved + 1)
        else:
            now = before
        self._watched[peer.peer_id] = now
        if len(self._watched) > MOST_WATCHED:
            del self._watched[next(iter(self._watched))]
        return now.moved >= self._proof
