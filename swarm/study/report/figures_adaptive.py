"""How the split of local and external groups moved, as a picture."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.study.analysis.curves import by_seed, common_rounds
from swarm.study.report.figure_style import Look, legend_below, new_figure


def split_trajectory(metrics: pd.DataFrame, look: Look, window: int) -> Any:
    """J over the rounds: moving average of the mean over all nodes and seeds, and the range of these over the nodes."""
    figure, (axis,) = new_figure(3.2)
    adaptive = metrics.dropna(subset=["adaptive_J"])
    for name in look.among(adaptive["configuration"].unique()):
        rows = adaptive[adaptive["configuration"] == name]
        nodes = rows.pivot_table(index="round", columns=["seed", "node_id"], values="adaptive_J", aggfunc="last")
        reached = common_rounds(by_seed(rows, "adaptive_J")).index
        nodes = nodes.loc[reached].astype(float).rolling(window, min_periods=1).mean()
        colour = look.colour(name)
        axis.plot(nodes.index, nodes.mean(axis=1), look.line(name), color=colour, label=name)
        axis.fill_between(nodes.index, nodes.min(axis=1), nodes.max(axis=1), color=colour, alpha=0.12, linewidth=0)
    axis.set(xlabel="round", ylabel="J, external groups per round")
    axis.set_ylim(0, float((adaptive["adaptive_I"] + adaptive["adaptive_J"]).max()))
    legend_below(figure, 3)
    return figure
