"""Which nodes of an experiment are running: asked before anything of it is started again or removed."""

from __future__ import annotations

from swarm.node.process.host import this_process
from swarm.records.files import read_peers
from swarm.records.liveness import is_alive
from swarm.store.run import Run


def live_nodes(run: Run, wall: float, liveness_timeout: float) -> list[str]:
    """Nodes that run at `wall`, Unix seconds, sorted; see is_alive."""
    here = this_process()
    return [peer.peer_id for peer in read_peers(run) if is_alive(peer, wall, liveness_timeout, here)]
