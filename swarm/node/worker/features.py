"""Chooses by a node's settings which of the product's own features join in its rounds: those that are off do not.

planted words         before publishing, columns     SWARM_PLANTED_WORDS: an instrument of studies
averaged weights      after the update, columns      SWARM_AVERAGE_EVERY
a judge's questions   after the row, columns         always: a judge may come at any time
hints, foreseeing     after the row                  always
peers' rewards        columns                        an evaluator
"""

from __future__ import annotations

from swarm.config import Settings
from swarm.node.worker.averaging import Averaging
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.held_out import HeldOutAnswers
from swarm.node.worker.hint_log import Foreseeing, HintLog
from swarm.node.worker.hooks import Hooks, PublishingHook
from swarm.node.worker.planting import counting, planting
from swarm.node.worker.row import mean_rewards
from swarm.node.worker.steps import PlayedRound
from swarm.records.liveness import EVALUATOR
from swarm.types import Generator, Trainer
from swarm.wire.metrics import MetricsRow


def before_publishing(settings: Settings, node_id: str) -> tuple[PublishingHook, ...]:
    """Returns what changes this node's files before peers see them."""
    words = settings.plants(node_id)
    return (planting(words),) if words else ()


def hooks_of(ctx: WorkerContext, generator: Generator, trainer: Trainer) -> Hooks:
    """Returns the other hooks, in the order in which they join in."""
    settings, hooks = ctx.settings, Hooks()
    if words := settings.planted_words:
        hooks += Hooks(columns=(counting(words, plants=bool(settings.plants(ctx.node_id))),))
    if settings.role == EVALUATOR:
        hooks += Hooks(columns=(_fill_peer_rewards,))
    hooks += Foreseeing(settings).hooks() + HintLog(ctx).hooks() + HeldOutAnswers(ctx, generator).hooks()
    averaging = Averaging(ctx, trainer)
    return hooks + (averaging.hooks() if settings.average_every else Hooks(again=(averaging.again,)))


def _fill_peer_rewards(row: MetricsRow, played: PlayedRound) -> None:
    """Tells what an evaluator, who answers nothing itself, found that its peers' answers are worth."""
    row.peer_rewards = mean_rewards(played.drawn.sample.groups)
