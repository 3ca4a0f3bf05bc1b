"""`swarm summary`: what a run learned, from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, open_experiment, refuse_no_folder_for, settings_to_look
from swarm.cli.say import print_result
from swarm.records.history import read_to_sum_up
from swarm.views import summary as summary_view


def summary(
    *,
    experiment_flags: CommonFlags | None = None,
    plot: Path | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show what an experiment learned, and plot it.

    Args:
        experiment_flags: which experiment.
        plot: Draw reward per round to this PNG or SVG file.
        as_json: JSON instead of tables.
    """
    refuse_no_folder_for("--plot", plot)
    sums, now = read_to_sum_up(open_experiment(settings_to_look(experiment_flags)))
    print_result(summary_view.summary_of(sums, now), summary_view.render, as_json=as_json)
    if plot is not None:
        from swarm.views.plot import save_reward_plot  # here: most look without one

        save_reward_plot({node: of_node.measured_rewards for node, of_node in sums.items()}, plot)
