"""Whether a node is well, for health checks of containers: `python -P -m services.health`.

Exit 0 if the heartbeat of NODE_ID, which its event loop writes, is young enough for its peers to count it as alive, 1
if it is not, whether its process is there or not. Settings come from the environment, as those of the node.
"""

import os
import sys
import time

from swarm.cli.flags import open_experiment, settings_from
from swarm.errors import SwarmError
from swarm.records.files import read_peer
from swarm.records.liveness import is_alive

BEATS = 3
"""Heartbeats that may be late."""


def problem() -> str:
    """What is wrong; empty where nothing is. Raises SwarmError: the place or the settings cannot be used."""
    settings = settings_from(None, os.environ)
    if settings.node_id is None:
        return "expected the node's id in NODE_ID, got none"
    peer = read_peer(open_experiment(settings), settings.node_id)
    if peer is None:
        return f"{settings.node_id} has not registered in {settings.experiment} of {settings.place}"
    patience = max(settings.cadence.liveness_timeout, BEATS * peer.heartbeat_interval)
    if not is_alive(peer, time.time(), patience):
        return f"{settings.node_id} has stopped, or has been silent for more than {patience:g} s"
    return ""


def main() -> int:
    """The exit code; what is wrong goes to the standard error."""
    try:
        found = problem()
    except (SwarmError, OSError) as error:
        found = str(error)
    if found:
        sys.stderr.write(f"{found}\n")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
