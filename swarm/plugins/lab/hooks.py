"""Joins the instruments that are on into a worker's rounds, for `swarm.hooks`. What is off is not imported."""

from __future__ import annotations

from swarm.node.base.context import NodeContext
from swarm.node.worker.hooks import Joining
from swarm.plugins.lab.settings import LabSettings


def join(ctx: NodeContext) -> Joining:
    """Returns what the settings of a node turn on."""
    if not ctx.settings.of(LabSettings).planted_words:
        return Joining()
    from swarm.plugins.lab.planting import joined

    return joined(ctx)
