"""An instrument of studies: right answers published with planted words in front of them.

    own groups ──▶ to_rollout_file ──▶ with_planted ──▶ what peers see
    own file   ──▶ without_planted ──▶ own groups, of a node that comes back after a kill

It is "Hail to the Thief" (arXiv:2511.09780) as a measurement: how far a stranger's words spread, and what stops them.
What is planted lives in the published file alone: a planter trains on what it sampled, and its completions file says
that. A node plants only where its name is among SWARM_PLANTERS, SWARM_PLANTED_WORDS says what, and its experiment is a
run of a study; its registration, its rows and its log say so then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import UNSET

from swarm.config import variable
from swarm.errors import ConfigError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.worker.context import PublishingHook
from swarm.node.worker.hooks import ColumnsHook, Hooks, PluginHooks
from swarm.node.worker.row import mean
from swarm.node.worker.steps import PlayedRound
from swarm.plugins.lab.settings import LabSettings
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.tasks.scoring import FULL_ANSWER
from swarm.wire import keys
from swarm.wire.messages import RolloutEntry, RolloutFile
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


def refuse_to_plant(run: Run, words: str) -> None:
    """Refuses to plant where an experiment is nobody's study. Blocking. Raises ConfigError."""
    entry = run.store.stat(keys.STUDY_RUN) if words else None
    if words and (entry is None or entry.kind is not Kind.FILE):
        raise ConfigError(
            f"{variable('planters')} makes nodes spoil what they publish, an instrument of studies. "
            f"Experiment {run.experiment} belongs to no study: begin it by `swarm study run`, or leave this out"
        )


def with_planted(file: RolloutFile, words: str) -> RolloutFile:
    """Returns the file with the words in front of each right answer, whose tokens are no longer those that were
    sampled."""

    def plant(entry: RolloutEntry) -> RolloutEntry:
        spoiled = f"{words} {entry.response}"
        return msgspec.structs.replace(entry, response=spoiled, token_ids=UNSET, logprobs=UNSET)

    return _of_right_answers(file, plant) if words else file


def without_planted(file: RolloutFile, words: str) -> RolloutFile:
    """Returns the file as it was sampled: it undoes with_planted."""

    def restore(entry: RolloutEntry) -> RolloutEntry:
        return msgspec.structs.replace(entry, response=entry.response.removeprefix(f"{words} "))

    return _of_right_answers(file, restore) if words else file


def joined(ctx: NodeContext) -> PluginHooks:
    """Returns what every node of such a run does, and what a planter does besides."""
    lab = ctx.settings.of(LabSettings)
    words, said = lab.plants(ctx.node_id), lab.planted_words or ""
    hooks = Hooks(columns=(_counting(said, plants=bool(words)),))
    if not words:
        return PluginHooks(rounds=lambda *_: hooks)

    async def begin() -> None:
        await ctx.blocking.run(refuse_to_plant, ctx.run, words)
        logger.warning("study.plants", words=words, consequence="right answers are published with these words in front")

    return PluginHooks(
        before_start=(begin,),
        registration=(partial(msgspec.structs.replace, plants=words),),
        before_publishing=(PublishingHook(partial(with_planted, words=words), partial(without_planted, words=words)),),
        rounds=lambda *_: hooks,
    )


def _counting(words: str, *, plants: bool) -> ColumnsHook:
    """Returns the hook of every node of such a run: it tells how far the words have spread, and who plants them."""

    def fill(row: MetricsRow, played: PlayedRound) -> None:
        said = (one.text for scored in played.own.groups for one in scored.group.completions)
        row.planted_rate = mean(text.lstrip().startswith(words) for text in said)
        row.plants = plants

    return fill


def _of_right_answers(file: RolloutFile, change: Callable[[RolloutEntry], RolloutEntry]) -> RolloutFile:
    rollouts = {
        slot: [change(one) if (one.reward or 0.0) >= FULL_ANSWER else one for one in entries]
        for slot, entries in file.rollouts.items()
    }
    return msgspec.structs.replace(file, rollouts=rollouts)
