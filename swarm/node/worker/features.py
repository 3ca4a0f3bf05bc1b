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
from swarm.node.worker.hooks import ColumnsHook, Hooks, PublishingHook
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
    settings, words = ctx.settings, ctx.settings.planted_words
    held_out, averaging, averages = HeldOutAnswers(ctx, generator), Averaging(ctx, trainer), settings.average_every > 0
    columns: list[ColumnsHook] = [held_out.fill]
    columns += [counting(words, plants=bool(settings.plants(ctx.node_id)))] if words else []
    columns += [_fill_peer_rewards] if settings.role == EVALUATOR else []
    columns += [averaging.fill] if averages else []
    return Hooks(
        after_update=(averaging.average,) if averages else (),
        columns=tuple(columns),
        after_row=(Foreseeing(settings).after_row, HintLog(ctx).after_row, held_out.after_row),
        again=(averaging.again, held_out.again),  # rows of before may name weights, whatever is on now
    )


def _fill_peer_rewards(row: MetricsRow, played: PlayedRound) -> None:
    """Tells what an evaluator, who answers nothing itself, found that its peers' answers are worth."""
    row.peer_rewards = mean_rewards(played.drawn.sample.groups)
