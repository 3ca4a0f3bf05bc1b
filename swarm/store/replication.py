"""How far what the members of a replicated place wrote has come to the others, whatever tool replicates it."""

from __future__ import annotations

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """Says how far another member is."""

    member: str
    connected: bool
    seen_ago: float | None
    """Seconds since it was last connected; None: never."""
    to_come: int
    """Bytes of its subtree that are not here yet."""
    has: float | None
    """Share of this machine's subtree that it has, 0 to 1; None while it is not connected."""
    delay: float | None = None
    """Seconds from its writing a heartbeat to its being here, the longest of its nodes'; None: there is none."""


class Replication(msgspec.Struct, frozen=True):
    """Says how far replication has come on one machine."""

    member: str
    host: str
    peers: list[Peer]
    problems: list[str]
    """What keeps members apart, or lets one write in another's subtree."""
    waiting: list[str] = []
    """Devices that knock and are no members; only the host can let them in."""
