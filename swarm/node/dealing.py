"""Which worker gets which settings, where several are started on one machine."""

from __future__ import annotations

import os
from dataclasses import replace
from random import SystemRandom

from swarm.config import Settings
from swarm.node.names import readable_name


def dealt(settings: Settings, nodes: int) -> list[Settings]:
    """The settings of each of several workers; a list of models is dealt out in turn.

    With NODE_ID=w they are called w-0, w-1, ...; without it each gets a name of its own.
    """
    name = settings.node_id
    return [
        replace(
            settings,
            role="worker",
            node_id=f"{name}-{n}" if name else readable_name(SystemRandom()),
            model=(settings.model[n % len(settings.model)],),
        )
        for n in range(nodes)
    ]


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
