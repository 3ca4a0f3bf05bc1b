"""Which nodes of an experiment are running: asked before anything of it is started again or removed."""

from __future__ import annotations

from swarm.node.process.host import host_identity, is_running
from swarm.records.liveness import STOPPED
from swarm.records.read import read_peers
from swarm.wire.layout import Layout


def live_nodes(layout: Layout, now: float, liveness_timeout: float) -> list[str]:
    """Nodes that have not said goodbye and whose process runs, sorted.

    On this machine the process is asked for. Of another machine a heartbeat is believed that is younger than
    `liveness_timeout` seconds at `now`, Unix seconds: the two must agree on the time.
    """
    here = host_identity()
    return [
        peer.peer_id
        for peer in read_peers(layout)
        if peer.status != STOPPED
        and (
            is_running(peer.pid, peer.process_started_at)
            if peer.host == here
            else abs(now - peer.last_seen) < liveness_timeout
        )
    ]
