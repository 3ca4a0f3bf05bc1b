"""`swarm inspect`: rollout groups of a run, from its folder: what was asked, answered, earned, and learnt from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec.structs import replace

from swarm.cli.flags import CommonFlags, open_experiment, settings_to_look
from swarm.cli.say import print_result
from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.records.groups import Group, WantedGroups, as_completion, read_groups
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.views.groups import render

if TYPE_CHECKING:
    from swarm.tasks.scoring import Scorer

MOST_GROUPS = 1000


def inspect(
    *,
    experiment_flags: CommonFlags | None = None,
    round_: Annotated[tuple[int, ...], Parameter("--round", validator=Number(gte=0))] = (),
    stage: Annotated[tuple[int, ...], Parameter("--stage", validator=Number(gte=0))] = (),
    node: Annotated[tuple[str, ...], Parameter("--node")] = (),
    task: Annotated[tuple[str, ...], Parameter("--task")] = (),
    groups: Annotated[
        int, Parameter(("--groups", "-n"), validator=Number(gte=1, lte=MOST_GROUPS), show_default=True)
    ] = 4,
    score: bool = False,
    output: Annotated[Literal["text", "json"], Parameter(("--output", "-o"), show_default=True)] = "text",
) -> int:
    """Show rollout groups: question, completions, rewards, advantages, who published them and who trained on them.

    Rewards are their publisher's claims, and advantages are computed from these as the run does. Exit 2 where none is
    of what was asked for.

    Args:
        experiment_flags: which experiment.
        round_: Only of this round; give it again for another one. Without it, the latest round that has some.
        stage: Only of this stage of a round; give it again for another one.
        node: Only what this node published; give it again for another one.
        task: Only of tasks whose name matches this pattern, such as 'binary*'; give it again for another one.
        groups: So many of them.
        score: Score the completions again, by this machine's own scorer.
        output: text or json.
    """
    settings = settings_to_look(experiment_flags)
    run = open_experiment(settings)
    found = read_groups(run, WantedGroups(frozenset(round_), frozenset(stage), frozenset(node), task), groups)
    if score:
        found = replace(found, groups=rescored(run, settings, found.groups))
    width = shutil.get_terminal_size().columns
    print_result(found, partial(render, width=width), as_json=output == "json")
    return 2 if (round_ or stage or node or task) and not found.groups else 0


def rescored(run: Run, settings: Settings, groups: Sequence[Group]) -> list[Group]:
    """Returns the groups with this machine's rewards, or why it has none.

    Raises:
        ConfigError: this system has no such scorer, or a task of the run's own cannot be had.
        ScoringError: no scoring server could be kept alive.
    """
    from swarm.cli.node import with_tasks_of
    from swarm.node.base.experiment import read_experiment
    from swarm.node.process.daemon import run_loop

    require_for("`swarm inspect --score`")
    experiment = read_experiment(run)
    return run_loop(_score, with_tasks_of(run, experiment, settings) if experiment else settings, groups)


async def _score(settings: Settings, groups: Sequence[Group]) -> list[Group]:
    from swarm.tasks.registry import NO_TASKS
    from swarm.tasks.scoring import Scorer

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
