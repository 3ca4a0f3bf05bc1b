"""`swarm inspect`: rollout groups of a run, from its folder: what was asked, answered, earned, and learnt from."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment, settings_to_look
from swarm.cli.say import print_result
from swarm.records.groups import WantedGroups, read_groups
from swarm.views.groups import render

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
        output: text or json.
    """
    run = open_experiment(settings_to_look(experiment_flags))
    found = read_groups(run, WantedGroups(frozenset(round_), frozenset(stage), frozenset(node), task), groups)
    width = shutil.get_terminal_size().columns
    print_result(found, partial(render, width=width), as_json=output == "json")
    return 2 if (round_ or stage or node or task) and not found.groups else 0
