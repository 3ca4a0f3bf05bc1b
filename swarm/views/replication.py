"""Says how far what members wrote has come to the others, in words."""

from __future__ import annotations

from swarm.store.replication import Peer, Replication
from swarm.views.text import age, shorten, size

MOST_LISTED = 20


def render_replication(now: Replication | None) -> str:
    """Returns a few lines below a status; empty where all nodes see one and the same place."""
    if now is None:
        return ""
    connected = sum(peer.connected for peer in now.peers)
    role = "the host" if now.member == now.host else f"invited by {now.host}"
    counted = f"; {connected} of {len(now.peers)} others are connected" if now.peers else ""
    lines = [f"replicated: this machine is {now.member}, {role}{counted}"]
    lines += [f"  {_peer(peer)}" for peer in now.peers[:MOST_LISTED]]
    lines += [f"  trouble: {shorten(problem, 200)}" for problem in now.problems]
    if now.problems:
        lines.append(
            "  -> start a node here, or run `swarm invite` or `swarm join --invitation` again: they set it right"
        )
    if now.member == now.host and now.waiting:
        lines.append(f"  {len(now.waiting)} devices knock that are no members; `swarm invite PATH` shows them")
    return "\n".join(lines)


def _peer(peer: Peer) -> str:
    if not peer.connected:
        seen = f"not connected for {age(peer.seen_ago)}" if peer.seen_ago is not None else "never connected yet"
        return f"{shorten(peer.member, 32)}: {seen}{_missing(peer)}"
    has = f"has {peer.has:.0%} of what is ours" if peer.has is not None else ""
    late = f", heartbeats come {peer.delay:.1f} s late" if peer.delay is not None else ""
    return f"{shorten(peer.member, 32)}: connected, {has}{_missing(peer)}{late}"


def _missing(peer: Peer) -> str:
    return f", {size(peer.to_come)} of its own to come" if peer.to_come else ""


def progress(now: Replication) -> str:
    """Returns one line while the first synchronisation goes on."""
    if now.problems:
        return f"the first synchronisation waits: {now.problems[0]}"
    away = [peer.member for peer in now.peers if not peer.connected]
    left = sum(peer.to_come for peer in now.peers)
    gone = f"; not connected: {', '.join(away)}" if away else ""
    return f"{f'{size(left)} to come' if left else 'all is here'} from {len(now.peers) - len(away)} members{gone}"
