"""Rewards as pictures: by agent, their average, and configurations beside each other.

Every function takes the rows of a study (swarm.study.get_study_metrics) and gives a matplotlib Figure.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.study.analysis.curves import bootstrap_band, by_agent, by_seed, common_rounds, first_seeds, smooth
from swarm.study.analysis.significance import FEWEST_SEEDS
from swarm.study.report.figure_style import Look, legend_below, new_figure, panels

REWARD = "mean reward per completion"


def reward_per_agent(metrics: pd.DataFrame, look: Look, window: int) -> Any:
    """One panel per configuration: the moving average of every agent of its first seed."""
    chosen = first_seeds(metrics)
    names = look.among(chosen["configuration"].unique())
    figure, axes = panels(len(names))
    for axis, name in zip(axes, names, strict=True):
        run = chosen[chosen["configuration"] == name]
        curves = smooth(by_agent(run), window)
        axis.plot(curves.index, curves.to_numpy(), color=look.colour(name), linewidth=0.9, alpha=0.7)
        axis.set_title(f"{name} (seed {run['seed'].iloc[0]})")
    _label(figure, "round", REWARD)
    return figure


def average_and_range(metrics: pd.DataFrame, look: Look, window: int) -> Any:
    """One panel per configuration: mean over agents, its moving average, and the range from the worst to the best."""
    chosen = first_seeds(metrics)
    names = look.among(chosen["configuration"].unique())
    figure, axes = panels(len(names))
    for axis, name in zip(axes, names, strict=True):
        run = chosen[chosen["configuration"] == name]
        _draw_average(axis, by_agent(run), look.colour(name), window)
        axis.set_title(f"{name} (seed {run['seed'].iloc[0]})")
    _label(figure, "round", REWARD)
    return figure


def _draw_average(axis: Any, agents: pd.DataFrame, colour: str, window: int) -> None:
    mean = agents.mean(axis=1)
    axis.fill_between(agents.index, agents.min(axis=1), agents.max(axis=1), color=colour, alpha=0.18, linewidth=0)
    axis.plot(agents.index, mean, color=colour, linewidth=0.5, alpha=0.6)
    axis.plot(agents.index, smooth(mean.to_frame(), window), color=colour, linewidth=1.8)


def mean_over_seeds(metrics: pd.DataFrame, look: Look, window: int) -> Any:
    """All configurations on one pair of axes: mean over seeds of the agent average, with its bootstrap band."""
    figure, (axis,) = new_figure(3.2)
    for name in look.among(metrics["configuration"].unique()):
        curves = smooth(common_rounds(by_seed(metrics[metrics["configuration"] == name])), window)
        if curves.empty:
            continue
        colour = look.colour(name)
        axis.plot(curves.index, curves.mean(axis=1), look.line(name), color=colour, label=name)
        if curves.shape[1] >= FEWEST_SEEDS:
            axis.fill_between(curves.index, *bootstrap_band(curves), color=colour, alpha=0.18, linewidth=0)
    axis.set(xlabel="round", ylabel=REWARD)
    legend_below(figure, 4)
    return figure


def _label(figure: Any, x: str, y: str) -> None:
    figure.supxlabel(x, fontsize=8.5)
    figure.supylabel(y, fontsize=8.5)
