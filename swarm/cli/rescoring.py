"""Scores published completions again, by this machine's own bounded scorer, as every node does with its peers'."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from swarm.cli.joining import with_tasks_of
from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.node.base.experiment import read_experiment
from swarm.node.process.daemon import run_loop
from swarm.records.groups import Group, as_completion
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.scoring import Scorer


def rescored(run: Run, settings: Settings, groups: Sequence[Group]) -> list[Group]:
    """Returns the groups with this machine's rewards, or why it has none.

    Raises:
        ConfigError: this system has no such scorer, or a task of the run's own cannot be had.
        ScoringError: no scoring server could be kept alive.
    """
    require_for("`swarm inspect --score`")
    experiment = read_experiment(run)
    return run_loop(_score, with_tasks_of(run, experiment, settings) if experiment else settings, groups)


async def _score(settings: Settings, groups: Sequence[Group]) -> list[Group]:
    async with Scorer(1, settings.task_families, settings.task_table or NO_TASKS) as scorer:
        return [await _of(scorer, group) for group in groups]


async def _of(scorer: Scorer, group: Group) -> Group:
    if group.origin is None:
        return replace(group, not_scored="it does not say where its question comes from")
    if group.cut or any(shown.cut for shown in group.completions):
        return replace(group, not_scored="its texts are longer than what is held of them")
    try:
        scored = await scorer.score(group.origin, group.question, [*map(as_completion, group.completions)])
    except ProtocolError as error:
        return replace(group, not_scored=str(error))
    both = zip(group.completions, scored.rewards, strict=True)
    return replace(group, completions=tuple(replace(shown, scored_reward=reward) for shown, reward in both))
