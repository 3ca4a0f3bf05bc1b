"""`swarm node` and `swarm workers`: one daemon, or several workers in one process, in the foreground.

`python -m services.worker`, `services.coordinator` and `services.workers` are the same.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import NodeFlags, RunFlags, asked_for, settings_from
from swarm.cli.processes import this_process_runs
from swarm.errors import ConfigError
from swarm.node.process.daemon import run_node
from swarm.systems import require_for


def node(flags: NodeFlags | None = None) -> int:
    """Run one node, a worker or the coordinator, until it is done.

    Ctrl-C once: finish the step, save, exit 130; twice: end at once. The same command goes on from there.
    """
    require_for("`swarm node`")
    settings = settings_from(flags)
    this_process_runs(settings, settings.role, [settings.node_id] if settings.node_id else [])
    return run_node(settings, asked_for(["swarm", "node"], flags))


def workers(
    *,
    nodes: Annotated[int, Parameter(help="Number of workers.")],
    flags: RunFlags | None = None,
) -> int:
    """Run several workers in one process until all are done.

    NODE_ID=w calls them w-0, w-1, ...; several models are dealt out in turn. Ctrl-C once: all finish their step and
    save, exit 130; twice: end at once. The same command goes on from there.
    """
    require_for("`swarm workers`")
    from swarm.node.process.in_process import run_workers

    if nodes < 1:
        raise ConfigError(f"--nodes must be at least 1, got {nodes}")
    settings = settings_from(flags)
    name = settings.node_id
    this_process_runs(settings, settings.role, [f"{name}-{n}" for n in range(nodes)] if name else [])
    return run_workers(settings, nodes, asked_for(["swarm", "workers", "--nodes", str(nodes)], flags))
