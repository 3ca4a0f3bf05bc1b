"""Chooses by a node's settings which features join in its rounds: those that are off do not.

plugins               anywhere                       those that are on (Settings.plugins)
a judge's questions   after the row, columns         always: a judge may come at any time
hints                 after the row                  always
foreseeing            after the own half, the row    always
peers' rewards        columns                        an evaluator
"""

from __future__ import annotations

from swarm.entry_points import HOOKS, of_plugins
from swarm.node.base.context import NodeContext
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.held_out import HeldOutAnswers
from swarm.node.worker.hint_log import Foreseeing, HintLog
from swarm.node.worker.hooks import ColumnsHook, Hooks, PluginHooks, all_plugins, together
from swarm.node.worker.row import mean_rewards
from swarm.node.worker.steps import PlayedRound
from swarm.records.liveness import EVALUATOR
from swarm.types import Generator, Trainer
from swarm.wire.metrics import MetricsRow


def plugin_hooks_of(ctx: NodeContext) -> PluginHooks:
    """Returns what the plugins that are on add to a node, in their order; of others nothing is imported.

    Raises:
        ConfigError: one of them cannot be imported.
    """
    return all_plugins([one for join in of_plugins(HOOKS, ctx.settings.plugins) for one in join(ctx)])


def hooks_of(ctx: WorkerContext, generator: Generator, trainer: Trainer) -> Hooks:
    """Returns the other hooks, in the order in which they join in."""
    settings = ctx.settings
    held_out = HeldOutAnswers(ctx, generator)
    columns: list[ColumnsHook] = [held_out.fill]
    columns += [_fill_peer_rewards] if settings.role == EVALUATOR else []
    foreseeing = Foreseeing(ctx)
    own = Hooks(
        after_own_half=(foreseeing.after_own_half,),
        columns=tuple(columns),
        after_row=(foreseeing.after_row, HintLog(ctx).after_row, held_out.after_row),
        again=(held_out.again,),
    )
    return together([ctx.plugin_hooks.rounds(ctx, generator, trainer), own])


def _fill_peer_rewards(row: MetricsRow, played: PlayedRound) -> None:
    """Tells what an evaluator, who answers nothing itself, found that its peers' answers are worth."""
    row.peer_rewards = mean_rewards(played.drawn.sample.groups)
