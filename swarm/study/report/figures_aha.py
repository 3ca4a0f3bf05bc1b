"""Aha moments as pictures: which node learned which task when, and how much later than the first one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from swarm.study.report.figure_style import FAINT, Look, legend_below, new_figure

MOST_TASKS = 20
"""That are drawn: those with the most crossings. Nodes name the tasks, and could name any number of them."""
LONGEST_NAME = 40
"""Letters of a task's name."""


def crossing_rounds(crossed: pd.DataFrame, look: Look) -> Any:
    """One row per task, one mark per node: the round in which it crossed, in the lowest seed with any crossing."""
    chosen = crossed[crossed["seed"] == crossed["seed"].min()]
    tasks = sorted(chosen["task"].value_counts().index[:MOST_TASKS])
    chosen = chosen[chosen["task"].isin(tasks)]
    names = look.among(chosen["configuration"].unique())
    figure, (axis,) = new_figure(1.2 + 0.5 * len(tasks))
    for place, name in enumerate(names):
        rows = chosen[chosen["configuration"] == name]
        height = [tasks.index(task) + 0.7 * ((place + 0.5) / len(names) - 0.5) for task in rows["task"]]
        axis.scatter(rows["round"], height, s=16, marker="|", linewidths=1.8, color=look.colour(name), label=name)
    axis.set_yticks(range(len(tasks)), [task.replace("_", " ")[:LONGEST_NAME] for task in tasks])
    axis.set_ylim(len(tasks) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    for border in range(1, len(tasks)):
        axis.axhline(border - 0.5, color=FAINT, linewidth=0.6)
    axis.set(xlabel="round of the crossing (one mark per node)")
    legend_below(figure, 4)
    return figure


def lag_distribution(crossed: pd.DataFrame, look: Look) -> Any:
    """Share of the later crossings that lay at most so many rounds behind the first node of their run and task."""
    figure, (axis,) = new_figure(2.7)
    late = crossed[(crossed["lag"] > 0) & ~crossed["from_start"]]
    for name in look.among(late["configuration"].unique()):
        lags = np.sort(late.loc[late["configuration"] == name, "lag"].to_numpy())
        shares = np.arange(1, len(lags) + 1) / len(lags)
        axis.step([0, *lags], [0, *shares], look.line(name), where="post", color=look.colour(name), label=name)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlabel="lag behind the first node, rounds", ylabel="share of later crossings", ylim=(0, 1.02))
    legend_below(figure, 4)
    return figure
