"""Sections on the rewards over the rounds: of every agent, their average, and the mean over the seeds.

Figures of agents take the rows of the nodes (frames.get_study_metrics), that of the seeds the per-seed table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import by_agent, by_seed, common_rounds, first_seeds, smooth
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FigureStyle, draw_band, draw_mean, legend_below, new_figure, panels
from swarm.plugins.study.report.sections import Picture, Section

REWARD = "mean reward per completion"


def agents_section(evidence: Evidence) -> Section | None:
    """Returns every agent on its own, and their range, where the rows of the nodes are at hand."""
    if evidence.metrics is None:
        return None
    metrics, look, window = evidence.metrics, evidence.look, evidence.window
    return Section(
        "Reward per agent",
        (
            "One panel per configuration, one line per agent, both scales shared. A line is the agent's mean reward "
            f"per completion on its own questions, as a moving average over the last {window} rounds. Lines that lie "
            "close together are agents that learned alike.",
            "In the second figure the thin line is the mean over the agents of one run, the thick one its moving "
            f"average over the last {window} rounds. The band is the range over agents (min to max), not an interval: "
            "it says how far apart the best and the worst agent of a round were, and nothing about other runs.",
        ),
        (
            Picture(
                "reward_per_agent",
                "Reward per agent in the first seed of each configuration that has rows; the title names the seed.",
                reward_per_agent(metrics, look, window),
            ),
            Picture(
                "agent_average",
                "Agent-averaged reward in the first seed of each configuration, with the range over agents (min to "
                "max), not an interval.",
                average_and_range(metrics, look, window),
            ),
        ),
    )


def average_section(evidence: Evidence) -> Section:
    """Makes the section on the mean reward over the seeds."""
    window = evidence.window
    return Section(
        "Agent-averaged reward",
        (
            f"Mean over the agents of a run, as a moving average over the last {window} rounds, and of that the mean "
            "over the seeds, over the rounds that all of them have reached. The band is the 95 % interval of that mean "
            f"by Student's t, drawn from {FEWEST_SEEDS} seeds on. It is pointwise: for whether two configurations "
            "differ, read the tables.",
        ),
        (
            Picture(
                "mean_over_seeds",
                "Agent-averaged reward, mean over seeds, with its 95 % interval.",
                mean_over_seeds(evidence.rounds, evidence.look, window),
            ),
        ),
    )


def reward_per_agent(metrics: pd.DataFrame, look: FigureStyle, window: int) -> Any:
    """Returns one panel per configuration: the moving average of every agent of its first seed."""

    def draw(axis: Any, agents: pd.DataFrame, colour: str) -> None:
        axis.plot(agents.index, smooth(agents, window).to_numpy(), color=colour, linewidth=0.9, alpha=0.7)

    return _panel_per_configuration(metrics, look, draw)


def average_and_range(metrics: pd.DataFrame, look: FigureStyle, window: int) -> Any:
    """Returns one panel per configuration: mean over agents, its moving average, and the range from the worst to the
    best."""

    def draw(axis: Any, agents: pd.DataFrame, colour: str) -> None:
        mean = agents.mean(axis=1)
        draw_band(axis, colour, agents.index, agents.min(axis=1), agents.max(axis=1))
        axis.plot(agents.index, mean, color=colour, linewidth=0.5, alpha=0.6)
        axis.plot(agents.index, smooth(mean.to_frame(), window), color=colour, linewidth=1.8)

    return _panel_per_configuration(metrics, look, draw)


def _panel_per_configuration(
    metrics: pd.DataFrame, look: FigureStyle, draw: Callable[[Any, pd.DataFrame, str], None]
) -> Any:
    """Panels of the first seed of each configuration: `draw` gets the axes, the agents' rewards and the colour."""
    runs = list(look.split(first_seeds(metrics)))
    figure, axes = panels(len(runs))
    for axis, (name, run) in zip(axes, runs, strict=True):
        draw(axis, by_agent(run), look.colour(name))
        axis.set_title(f"{name} (seed {run['seed'].iloc[0]})")
    figure.supxlabel("round", fontsize=8.5)
    figure.supylabel(REWARD, fontsize=8.5)
    return figure


def mean_over_seeds(rounds: pd.DataFrame, look: FigureStyle, window: int) -> Any:
    """Returns all configurations on one pair of axes: mean over seeds of the agent average, with its band."""
    figure, (axis,) = new_figure(3.2)
    for name, rows in look.split(rounds):
        curves = smooth(common_rounds(by_seed(rows, "mean")), window)
        if not curves.empty:
            draw_mean(axis, look, name, curves)
    axis.set(xlabel="round", ylabel=REWARD)
    legend_below(figure, 4)
    return figure
