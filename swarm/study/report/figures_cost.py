"""What reward cost: generated tokens, wall-clock and bytes as pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from swarm.study.analysis.curves import common_rounds, smooth
from swarm.study.analysis.measures import agent_average
from swarm.study.report.figure_style import Look, legend_below, new_figure
from swarm.study.report.figures_reward import REWARD


def reward_against_tokens(metrics: pd.DataFrame, look: Look, window: int) -> Any:
    """The moving average of the reward over the tokens that a node has generated so far."""
    return _against(metrics, look, window, "tokens_per_node", "thousand tokens generated per node", 1000.0)


def reward_against_time(metrics: pd.DataFrame, look: Look, window: int) -> Any:
    """The moving average of the reward over the minutes since the first round began."""
    return _against(metrics, look, window, "seconds", "minutes since the first round began", 60.0)


def _against(metrics: pd.DataFrame, look: Look, window: int, cost: str, label: str, unit: float) -> Any:
    figure, (axis,) = new_figure(3.0)
    runs = agent_average(metrics)
    for name in look.among(runs["configuration"].unique()):
        curves = runs[runs["configuration"] == name].pivot(index="round", columns="seed", values=["mean", cost])
        rounds = common_rounds(curves).T.groupby(level=0).mean().T
        reward = smooth(rounds[["mean"]], window)["mean"]
        axis.plot(rounds[cost] / unit, reward, look.line(name), color=look.colour(name), label=name)
    axis.set(xlabel=label, ylabel=REWARD)
    legend_below(figure, 4)
    return figure


def bytes_per_round(traffic: pd.DataFrame, look: Look) -> Any:
    """Bars: kilobytes that a node publishes and fetches per round, on average.

    Args:
        traffic: one row per configuration with `bytes_published` and `bytes_fetched` per node and round.
        look: the study's configurations.
    """
    names = look.among(traffic["configuration"])
    rows = traffic.set_index("configuration").loc[names]
    figure, (axis,) = new_figure(0.9 + 0.42 * len(names))
    places = np.arange(len(names))
    colours = [look.colour(name) for name in names]
    axis.barh(places - 0.19, rows["bytes_published"] / 1000, height=0.36, color=colours, label="published")
    axis.barh(places + 0.19, rows["bytes_fetched"] / 1000, height=0.36, color=colours, alpha=0.45, label="fetched")
    axis.set_yticks(places, names)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set(xlabel="kB per node and round (upper bar published, paler bar fetched)")
    return figure
