"""`python -m services.workers`: several workers in one process, in the foreground."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import RunFlags, settings_from
from swarm.errors import ConfigError


def workers(
    *,
    nodes: Annotated[int, Parameter(help="Number of workers.")],
    flags: RunFlags | None = None,
) -> int:
    """Run several workers in one process until all are done.

    NODE_ID=w calls them w-0, w-1, ...; several models are dealt out in turn. Ctrl-C once: all finish their step and
    save, exit 130; twice: end at once. The same command goes on from there.
    """
    from swarm.node.process.in_process import run_workers

    if nodes < 1:
        raise ConfigError(f"--nodes must be at least 1, got {nodes}")
    return run_workers(settings_from(flags, os.environ), nodes)
