"""Says what a node is about, in words, from its registration and from what its stage lacks; pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from swarm.records.liveness import ACTIVE, STANDBY, STARTING, STOPPED
from swarm.views.text import age, shorten
from swarm.wire.messages import MetricsRow, PeerFile

MOST_NAMES = 2
LONGEST_NAME = 12
OVERDUE = 2.5
"""Beats that a live node may be behind without a word: one is under way, and one is late."""
SHORTEST_INTERVAL = 0.01
"""Interval of heartbeats, seconds; what says less says nothing."""
MOST_BEATS = 9999.0

_DOING: Mapping[str, str] = {
    "loading": "loads its model",
    "generating": "generates its answers",
    "scoring": "scores its answers",
    "publishing": "publishes its groups",
    "training": "trains",
    "submitting": "submits its reward",
    "saving": "saves a checkpoint",
    "done": "has done its last round",
}
"""A worker's phase, but for those in which it waits for others."""


class Missing(NamedTuple):
    """Says what the open stage lacks."""

    rollouts: Set[str]
    """Live workers that have not published."""
    rewards: Set[str]
    """Live workers that have not submitted their reward."""
    clocked: bool
    """There is a clock that has not finished."""


def up_to_date(peer: PeerFile, last: MetricsRow | None) -> PeerFile:
    """Returns a registration as the last row of its node has it, where that is newer: in a bucket beats are seldom."""
    if last is None or last.timestamp <= max(peer.last_seen, peer.phase_since) or peer.status == STOPPED:
        return peer
    return msgspec.structs.replace(peer, status=ACTIVE, round=last.round, phase="idle", phase_since=last.timestamp)


def in_words(peer: PeerFile, missing: Missing, wall: float, *, live: bool) -> str:
    """Returns what a node does, or whom it waits for, and for how long by now.

    Args:
        wall: Unix seconds.
    """
    if not live:
        return "has left" if peer.status == STOPPED else f"silent{_beats_missed(peer, wall)}"
    began = peer.phase_since or (peer.registered_at if peer.status == STARTING else 0.0)
    since = f", {age(wall - began)}" if 0 < began <= wall else ""
    if peer.node_role == "coordinator":
        return _coordinator(peer, missing)
    if peer.status == STARTING:
        return f"starts: {_DOING.get(peer.phase, 'loads its model')}{since}"
    return f"{_worker(peer, missing)}{since}" if peer.node_role == "worker" else shorten(peer.phase, 24)


def _coordinator(peer: PeerFile, missing: Missing) -> str:
    if peer.status == STANDBY:
        return "stands by"
    if peer.status == STARTING:
        return "starts"
    if not missing.clocked:
        return "waits for workers"
    return f"waits for {_names(missing.rewards)}" if missing.rewards else "keeps the clock"


def _worker(peer: PeerFile, missing: Missing) -> str:
    others = missing.rollouts - {peer.peer_id}
    match peer.phase:
        case "gathering":
            return f"waits for groups of {_names(others)}" if missing.clocked and others else "takes in peers' groups"
        case "idle" if not missing.clocked:
            return "waits for a round"
        case "idle" if peer.peer_id in missing.rewards:
            return "about to begin the round"
        case "idle":
            return f"waits for {_names(missing.rewards)}" if missing.rewards else "waits for the next round"
        case phase:
            return _DOING.get(phase) or shorten(phase, 24) or "-"


def _names(nodes: Set[str]) -> str:
    names = [shorten(node, LONGEST_NAME) for node in sorted(nodes)]
    left = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {left} more" if left > 0 else "")


def _beats_missed(peer: PeerFile, wall: float) -> str:
    behind = _beats_behind(peer, wall)
    return "" if behind is None else f", {behind:.0f} heartbeats missed"


def _beats_behind(peer: PeerFile, wall: float) -> float | None:
    """Returns the heartbeat intervals since the last one; None where it does not say how long they are."""
    if peer.heartbeat_interval < SHORTEST_INTERVAL:
        return None
    return min(MOST_BEATS, max(0.0, wall - peer.last_seen) / peer.heartbeat_interval)


def seen(peer: PeerFile, wall: float) -> str:
    """Says how long ago its last heartbeat was; of one that is overdue, how many that is."""
    ago = max(0.0, wall - peer.last_seen)
    behind = _beats_behind(peer, wall) or 0.0
    late = behind > OVERDUE and peer.status != STOPPED
    return f"{age(ago)} ({behind:.0f} beats)" if late else age(ago)


def shortage(row: MetricsRow) -> str:
    """Returns why a node trained on fewer external groups than it wanted, by its last row; empty where it did not.

    What it refused may be of files that it would not have drawn anyway: it is counted since the row before.
    """
    if row.external_groups >= row.external_wanted:
        return ""
    useless = max(0, row.pool_groups - row.pool_informative)
    reasons = {"zero advantage": useless} | {shorten(why, 32): count for why, count in row.refused_files.items()}
    ordered = sorted(((count, why) for why, count in reasons.items() if count > 0), reverse=True)
    why = ", ".join(f"{count} {name}" for count, name in ordered[:4])
    usable = f"{row.external_groups} of {row.external_wanted} external groups"
    heard = "no peer was heard" if not row.peers_heard else f"{row.peers_heard} peers heard"
    return f"{usable}: {why or heard}"
