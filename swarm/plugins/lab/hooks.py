"""Joins the instruments that are on into a worker's rounds, for `swarm.hooks`. What is off is not imported."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.node.base.context import NodeContext
from swarm.node.worker.hooks import PluginHooks
from swarm.plugins.lab.settings import LabSettings


def join(ctx: NodeContext) -> Sequence[PluginHooks]:
    """Returns what the settings of a node turn on."""
    lab, found = ctx.settings.of(LabSettings), list[PluginHooks]()
    if lab.planted_words:
        from swarm.plugins.lab import planting

        found.append(planting.joined(ctx))
    if lab.average_every:
        from swarm.plugins.lab import averaging

        found.append(averaging.joined())
    return found
