"""`swarm node`: one daemon in the foreground; `python -m services.worker` and `services.coordinator` are the same."""

from __future__ import annotations

import os

from swarm.cli.flags import NodeFlags, settings_from
from swarm.node.process.daemon import run_node


def node(flags: NodeFlags | None = None) -> int:
    """Run one node, a worker or the coordinator, until it is done.

    Ctrl-C once: finish the step, save, exit 130; twice: end at once. The same command goes on from there.
    """
    return run_node(settings_from(flags, os.environ))
