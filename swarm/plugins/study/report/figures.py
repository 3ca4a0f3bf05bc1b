"""The figures of a report: each a function of the evidence, by kind.

    over_rounds         one line per configuration, the mean over its seeds with its interval, a panel per column
    per_configuration   one panel per configuration, of the nodes of its first seed
    against             reward over what it cost
    ..._bars            one row per configuration
    the rest            marks: one per configuration, node or crossing

Bands and bars are 95 % intervals over seeds unless a caption says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from swarm.plugins.study.analysis.comparisons import finished
from swarm.plugins.study.analysis.curves import by_agent, by_seed, common_rounds, first_seeds, smooth
from swarm.plugins.study.analysis.judged import WINDOW_ROUNDS
from swarm.plugins.study.analysis.learned import OTHERS, OWN
from swarm.plugins.study.analysis.supply import expected_informative
from swarm.plugins.study.report import paper, tables
from swarm.plugins.study.report.evidence import Evidence, Rows
from swarm.plugins.study.report.figure_style import (
    FAINT,
    INK,
    draw_band,
    draw_curve,
    draw_mean,
    legend_below,
    new_figure,
    panels,
)

REWARD = "mean reward per completion"
MOST_TASKS = 20
"""That are drawn: those with the most crossings. Nodes name the tasks, and could name any number of them."""
LONGEST_NAME = 40
"""Letters of a task's name."""
APART = 0.02
"""Share of the starting reward by which marks of one group stand apart."""
LINEAR_BELOW = 10.0
"""Percent: effects below it are drawn on a linear scale, since they may be 0 or negative."""
Draw = Callable[[Evidence], Any]


@contextmanager
def plot(height: float, *, legend: int = 4, xlabel: str, ylabel: str = "") -> Iterator[tuple[Any, Any]]:
    """Gives a figure of one pair of axes to draw on, and labels them and sets the legend below afterwards.

    Args:
        height: inches.
        legend: columns at most.
        xlabel, ylabel: of the axes.
    """
    figure, (axis,) = new_figure(height)
    yield figure, axis
    axis.set(xlabel=xlabel, ylabel=ylabel)
    legend_below(figure, legend)


def over_rounds(rows: Rows, shown: Mapping[str, str]) -> Draw:
    """Returns a drawing of a panel for each of these columns, as moving averages over the rounds.

    Args:
        rows: one per run and round.
        shown: column -> title of its panel.
    """

    def draw(evidence: Evidence) -> Any:
        figure, axes = panels(len(shown), 2.4)
        for axis, (column, title) in zip(axes, shown.items(), strict=True):
            _means(axis, evidence, evidence.rows_of(rows), column, evidence.window)
            axis.set(title=title, xlabel="round")
        legend_below(figure, 4)
        return figure

    return draw


def _means(axis: Any, evidence: Evidence, rows: pd.DataFrame, column: str, window: int, **style: Any) -> None:
    """One line per configuration, up to the last round that all its seeds have."""
    for name, own in evidence.look.split(rows):
        runs = by_seed(own, column)
        reached = runs.bfill().notna().all(axis=1)
        curves = common_rounds(smooth(runs[reached], window))
        if not curves.empty:
            draw_mean(axis, evidence.look, name, curves, **style)


def mean_over_seeds(evidence: Evidence) -> Any:
    """All configurations on one pair of axes: mean over seeds of the agent average, with its band."""
    with plot(3.2, xlabel="round", ylabel=REWARD) as (figure, axis):
        _means(axis, evidence, evidence.rounds, "mean", evidence.window)
    return figure


def held_out(evidence: Evidence) -> Any:
    """pass@1 over the windows of rounds that a judge asked in."""
    with plot(3.0, xlabel=f"first round of the window of {WINDOW_ROUNDS}", ylabel="held-out pass@1") as (figure, axis):
        _means(axis, evidence, evidence.held_out, "pass_at_1", 1, marker=".")
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def learned_curves(evidence: Evidence) -> Any:
    """Two panels, tables of others and own ones."""
    figure, axes = new_figure(3.0, 1, 2)
    titles = {OTHERS: "tables that only others knew", OWN: "own tables"}
    for axis, (whose, title) in zip(axes, titles.items(), strict=True):
        rows = evidence.knowledge[evidence.knowledge["whose"] == whose]
        _means(axis, evidence, rows, "above_constant", evidence.window)
        axis.axhline(0, color="grey", linewidth=0.6)
        axis.set(title=title, xlabel="round")
    axes[0].set_ylabel("accuracy above the constant")
    legend_below(figure, 4)
    return figure


def split_trajectory(evidence: Evidence) -> Any:
    """J over the rounds: moving average of the mean over all nodes and seeds, and the range of these over the nodes."""
    adaptive = evidence.node_rows.dropna(subset=["adaptive_J"])
    with plot(3.2, legend=3, xlabel="round", ylabel="J, external groups") as (figure, axis):
        for name, rows in evidence.look.split(adaptive):
            nodes = rows.pivot_table(index="round", columns=["seed", "node_id"], values="adaptive_J", aggfunc="last")
            reached = common_rounds(by_seed(rows, "adaptive_J")).index
            nodes = smooth(nodes.loc[reached].astype(float), evidence.window)
            draw_curve(axis, evidence.look, name, nodes.index, nodes.mean(axis=1))
            colour = evidence.look.colour(name)
            draw_band(axis, colour, nodes.index, nodes.min(axis=1), nodes.max(axis=1), alpha=0.12)
        axis.set_ylim(0, float((adaptive["adaptive_I"] + adaptive["adaptive_J"]).max()))
    return figure


def reward_per_agent(evidence: Evidence) -> Any:
    """The moving average of every agent of the first seed."""

    def draw(axis: Any, agents: pd.DataFrame, colour: str) -> None:
        axis.plot(agents.index, smooth(agents, evidence.window).to_numpy(), color=colour, linewidth=0.9, alpha=0.7)

    return _per_configuration(evidence, draw)


def average_and_range(evidence: Evidence) -> Any:
    """Mean over the agents of the first seed, its moving average, and the range from the worst to the best."""

    def draw(axis: Any, agents: pd.DataFrame, colour: str) -> None:
        mean = agents.mean(axis=1)
        draw_band(axis, colour, agents.index, agents.min(axis=1), agents.max(axis=1))
        axis.plot(agents.index, mean, color=colour, linewidth=0.5, alpha=0.6)
        axis.plot(agents.index, smooth(mean.to_frame(), evidence.window), color=colour, linewidth=1.8)

    return _per_configuration(evidence, draw)


def _per_configuration(evidence: Evidence, draw: Callable[[Any, pd.DataFrame, str], None]) -> Any:
    """`draw` gets the axes, the agents' rewards and the colour."""
    runs = list(evidence.look.split(first_seeds(evidence.node_rows)))
    figure, axes = panels(len(runs))
    for axis, (name, run) in zip(axes, runs, strict=True):
        draw(axis, by_agent(run), evidence.look.colour(name))
        axis.set_title(f"{name} (seed {run['seed'].iloc[0]})")
    figure.supxlabel("round", fontsize=8.5)
    figure.supylabel(REWARD, fontsize=8.5)
    return figure


def against(cost: str, label: str, unit: float) -> Draw:
    """Returns a drawing of the moving average of the reward over what had been spent, mean over seeds of both."""

    def draw(evidence: Evidence) -> Any:
        with plot(3.0, xlabel=label, ylabel=REWARD) as (figure, axis):
            for name, rows in evidence.look.split(evidence.rounds):
                curves = rows.pivot(index="round", columns="seed", values=["mean", cost])
                means = common_rounds(curves).T.groupby(level=0).mean().T
                reward = smooth(means[["mean"]], evidence.window)["mean"]
                draw_curve(axis, evidence.look, name, means[cost] / unit, reward)
        return figure

    return draw


def cumulative_bars(evidence: Evidence) -> Any:
    """One bar per configuration: mean over seeds, its interval, a dot for each seed, and the paper's sum where that may
    stand beside these."""
    compared, look = evidence.compared, evidence.look
    runs = finished(evidence.runs, evidence.record)
    names, places = compared["configuration"].tolist(), np.arange(len(compared))
    label = "cumulative reward (sum over nodes and rounds)"
    with plot(1.1 + 0.36 * len(names), legend=2, xlabel=label) as (figure, axis):
        axis.set_yticks(places, names)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.grid(visible=False, axis="y")
        axis.barh(places, compared["mean"], height=0.62, color=[look.colour(name) for name in names], alpha=0.55)
        known = compared["low"].notna()
        if known.any():
            own = compared[known].astype({"mean": float, "low": float, "high": float})
            style: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1.1, "capsize": 3}
            reach = [own["mean"] - own["low"], own["high"] - own["mean"]]
            axis.errorbar(own["mean"], places[known], xerr=reach, label="95 % interval over seeds", **style)
        for place, name in zip(places, names, strict=True):
            seeds = runs.loc[runs["configuration"] == name, "cumulative_reward"]
            axis.scatter(seeds, np.full(len(seeds), place + 0.2), s=7, color=look.colour(name), zorder=3)
        axis.scatter([], [], s=7, color=INK, label="one seed")
        sums = paper.CUMULATIVE_REWARD if paper.same_scale(evidence.record) else {}
        drawn = [(sums[name], place) for place, name in enumerate(names) if name in sums]
        if drawn:
            axis.scatter(
                *zip(*drawn, strict=True), marker="D", s=30, facecolor="none", edgecolor=INK, label="the paper"
            )
    return figure


def crossing_rounds(evidence: Evidence) -> Any:
    """One row per task, one mark per node: the round in which it crossed, in the first seed with a crossing."""
    crossed = evidence.crossings
    chosen = crossed[crossed["seed"] == crossed["seed"].min()]
    tasks = sorted(chosen["task"].value_counts().index[:MOST_TASKS])
    runs = list(evidence.look.split(chosen[chosen["task"].isin(tasks)]))
    with plot(1.2 + 0.5 * len(tasks), xlabel="round of the crossing (one mark per node)") as (figure, axis):
        for place, (name, rows) in enumerate(runs):
            height = [tasks.index(task) + 0.7 * ((place + 0.5) / len(runs) - 0.5) for task in rows["task"]]
            colour = evidence.look.colour(name)
            axis.scatter(rows["round"], height, s=16, marker="|", linewidths=1.8, color=colour, label=name)
        axis.set_yticks(range(len(tasks)), [task.replace("_", " ")[:LONGEST_NAME] for task in tasks])
        axis.set_ylim(len(tasks) - 0.5, -0.5)
        axis.grid(visible=False, axis="y")
        for border in range(1, len(tasks)):
            axis.axhline(border - 0.5, color=FAINT, linewidth=0.6)
    return figure


def effect_against_start(evidence: Evidence) -> Any:
    """Improvement over starting reward: one mark per configuration.

    Groups may start at rewards, and end with effects, of quite different sizes: then both scales are logarithmic, that
    of the effect but for its middle.
    """
    effect, look = evidence.by_start, evidence.look
    places = _places(effect)
    several = effect["group"].nunique() > 1 and bool((effect["starting_reward"] > 0).all())
    with plot(3.0, legend=3, xlabel="starting reward (round 0)", ylabel="improvement, percent") as (figure, axis):
        axis.axhline(0, color=INK, linewidth=0.8)
        for name, rows in look.split(effect):
            x, y, colour = rows["starting_reward"] * (1 + APART * places[name]), rows["improvement"], look.colour(name)
            known = rows["improvement_low"].notna()
            ends = [(y - rows["improvement_low"])[known], (rows["improvement_high"] - y)[known]]
            reach = [end.clip(lower=0) for end in ends]
            axis.errorbar(x[known], y[known], yerr=reach, fmt="none", ecolor=colour, capsize=2)
            axis.scatter(x, y, s=26, color=colour, label=name, zorder=3)
        if several:
            axis.set_xscale("log")
            axis.set_yscale("symlog", linthresh=LINEAR_BELOW)
            for scale in (axis.xaxis, axis.yaxis):
                scale.set_major_formatter("{x:g}")
        else:
            axis.set_xlim(0, 1.2 * max(0.01, float(effect["starting_reward"].max())))
    return figure


def _places(effect: pd.DataFrame) -> dict[str, float]:
    """Returns where each configuration stands among those of its group, 0 in the middle."""
    return {
        str(name): place - (len(rows) - 1) / 2
        for _, rows in effect.groupby("group")
        for place, name in enumerate(rows["configuration"])
    }


def groups_against_size(evidence: Evidence) -> Any:
    """Informative groups over nodes: theory as one line per split and start, theory by rounds and measurement as
    marks."""
    table = tables.supply(evidence)
    sizes = range(1, int(table["nodes"].max()) + 1)
    with plot(3.0, xlabel="nodes", ylabel="informative groups") as (figure, axis):
        for split in table[["local", "external", "share"]].drop_duplicates().itertuples(index=False, name=None):
            expected = [expected_informative(nodes, *split) for nodes in sizes]
            axis.plot(sizes, expected, color=INK, linewidth=0.9, label="expected at the start")
        for name, rows in evidence.look.split(table):
            edge = evidence.look.colour(name)
            axis.scatter(rows["nodes"], rows["expected"], s=30, facecolor="none", edgecolor=edge, label=name)
            axis.scatter(rows["nodes"], rows["measured"], s=26, marker="x", color=edge)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
    return figure


def reward_against_groups(evidence: Evidence) -> Any:
    """The reward over expected informative groups: one mark per configuration."""
    ordered = (table := tables.supply(evidence)).sort_values("expected_start", kind="stable")
    label = "informative groups per node and round, expected at the start"
    with plot(3.0, xlabel=label, ylabel="mean reward") as (figure, axis):
        axis.plot(ordered["expected_start"], ordered["reward"], color=INK, linewidth=0.8)
        for name, rows in evidence.look.split(table):
            colour = evidence.look.colour(name)
            axis.scatter(rows["expected_start"], rows["reward"], s=30, color=colour, label=name, zorder=3)
    return figure
