"""Peers, questions and policies that need no model, no child process and no time."""

from __future__ import annotations

from typing import Any

from swarm.protocol.messages import PeerFile


def make_peer(node: str, **more: Any) -> PeerFile:
    """A live worker's registration."""
    fields: dict[str, Any] = {
        "peer_id": node,
        "registered_at": 1_700_000_000.0,
        "node_role": "worker",
        "incarnation": "first",
        **more,
    }
    return PeerFile(**fields)
