"""The figures of a report: three kinds, one style, and their files.

    curves   columns over the rounds, a panel each: one line per configuration, the mean over its seeds
    bars     a measure of the runs: one bar per configuration, one dot per seed
    marks    one column of a table over another: one mark per row

Bands and whiskers are 95 % intervals over seeds, and are left out below FEWEST_SEEDS. Figures are 5 inches wide, which
is a phone's width at 72 units an inch, so that their letters keep their size there. The same data give the same bytes:
identifiers come from a fixed salt and nothing writes a date.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from swarm.plugins.study.analysis.comparisons import finished
from swarm.plugins.study.analysis.curves import by_agent, by_seed, mean_band, smooth
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.report.evidence import Evidence

Draw = Callable[[Evidence, pd.DataFrame], Figure]
REWARD = "mean reward per completion"
WIDTH = 5.0
"""Inches."""
BESIDE = 3
"""Panels beside each other, of many."""
LEGEND_WIDTH = 86
"""Characters of a legend that fit into it."""
LEGEND_MARK = 8
"""Characters that the line beside a label and the space between columns take."""
APART = 10.0
"""Ratio of the largest value of an axis to its smallest from which on the axis is logarithmic."""
LINEAR_BELOW = 10.0
"""Percent: effects below it are drawn on a linear scale even so, since they may be 0 or negative."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
"""Okabe and Ito's colours, told apart by colour-blind readers, without their yellow, which white paper swallows."""
LINES = ("-", "--", ":", "-.")
"""Line styles: the next one with each turn of the palette."""
INK = "#1b1e23"
STYLE = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#c9ccd1",
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "swarm",
    "pdf.fonttype": 42,
}
UNDATED = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None},
}
"""Form of a figure's file -> the metadata that differ from day to day, or from version to version."""


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def curves(panels: Mapping[str, str], ylabel: str = "", *, window: int | None = None) -> Draw:
    """Draws a panel for each of these columns, as moving averages over the rounds.

    Args:
        panels: column -> title of its panel.
        ylabel: of the first panel.
        window: rounds of the moving averages, of rows that stand apart and get a dot each; None: the report's.
    """

    def draw(evidence: Evidence, rows: pd.DataFrame) -> Figure:
        figure, axes = new_figure(3.2, len(panels))
        for axis, (column, title) in zip(axes, panels.items(), strict=True):
            for name, own in split(evidence, rows):
                means = by_seed(own, column)
                reached = means.bfill().notna().all(axis=1)
                means = smooth(means[reached], window or evidence.window).dropna()  # a mean would jump where a run ends
                colour, line = look(evidence, name)
                dots = "." if window else ""
                axis.plot(means.index, means.mean(axis=1), line, color=colour, label=name, marker=dots)
                if means.shape[1] >= FEWEST_SEEDS and len(means):
                    draw_band(axis, means.index, *mean_band(means), colour)
            axis.set(title=title, xlabel="round")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0].set_ylabel(ylabel)
        legend_below(figure)
        return figure

    return draw


def bars(column: str, label: str) -> Draw:
    """Draws the mean of a comparison with its interval, and the finished runs' values of a column beside it."""

    def draw(evidence: Evidence, rows: pd.DataFrame) -> Figure:
        figure, (axis,) = new_figure(1.1 + 0.36 * len(rows))
        runs = finished(evidence.runs, evidence.record)
        for place, row in enumerate(rows.to_dict("records")):
            name, mean = row["configuration"], row["mean"]
            colour, _ = look(evidence, name)
            axis.barh(place, mean, height=0.62, color=colour, alpha=0.55)
            seeds = runs.loc[runs["configuration"] == name, column]
            axis.scatter(seeds, np.full(len(seeds), place + 0.2), s=7, color=colour, zorder=3)
            if pd.notna(row["low"]):
                ends = [[mean - row["low"]], [row["high"] - mean]]
                axis.errorbar(mean, place, xerr=ends, fmt="none", ecolor=INK, elinewidth=1.1, capsize=3)
        axis.set_yticks(range(len(rows)), rows["configuration"])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel(label)
        axis.grid(visible=False, axis="y")
        return figure

    return draw


def marks(x: str, y: str, xlabel: str, ylabel: str) -> Draw:
    """Draws one column of a table over another, with the interval that it has for the latter.

    Rows may lie quite far apart. Then the scales are logarithmic, that of y but for its middle.
    """

    def draw(evidence: Evidence, rows: pd.DataFrame) -> Figure:
        figure, (axis,) = new_figure(3.2)
        for name, own in split(evidence, rows):
            colour, _ = look(evidence, name)
            axis.scatter(own[x], own[y], s=26, color=colour, label=name, zorder=3)
            if f"{y}_low" in own:
                ends = [(own[y] - own[f"{y}_low"]).clip(lower=0), (own[f"{y}_high"] - own[y]).clip(lower=0)]
                axis.errorbar(own[x], own[y], yerr=ends, fmt="none", ecolor=colour, capsize=2)
        if rows[x].max() > APART * rows[x].min() > 0:
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
        if rows[y].max() > APART * LINEAR_BELOW:
            axis.set_yscale("symlog", linthresh=LINEAR_BELOW)
            axis.yaxis.set_major_formatter("{x:g}")
        axis.set(xlabel=xlabel, ylabel=ylabel)
        legend_below(figure)
        return figure

    return draw


def agents(*, each: bool) -> Draw:
    """Draws a panel for each configuration: the rewards of one run's agents over the rounds, as the paper does.

    Args:
        each: one moving average per agent; else the mean over the agents (thin), its moving average (thick), and the
            range from the worst agent to the best.
    """

    def draw(evidence: Evidence, rows: pd.DataFrame) -> Figure:
        runs = list(split(evidence, rows))
        columns = min(BESIDE, len(runs))
        lines = math.ceil(len(runs) / columns)
        figure, axes = new_figure(1.5 + 1.7 * lines, columns, lines)
        for spare in axes[len(runs) :]:
            spare.set_visible(False)
        for axis, (name, run) in zip(axes, runs, strict=False):
            colour, _ = look(evidence, name)
            rewards = by_agent(run)
            shown = rewards if each else rewards.mean(axis=1).to_frame()
            if not each:
                draw_band(axis, rewards.index, rewards.min(axis=1), rewards.max(axis=1), colour)
                axis.plot(rewards.index, shown, color=colour, linewidth=0.5, alpha=0.6)
            width = 0.9 if each else 1.8
            axis.plot(rewards.index, smooth(shown, evidence.window).to_numpy(), color=colour, linewidth=width)
            axis.set_title(f"{name} (seed {run['seed'].iloc[0]})")
            axis.tick_params(labelbottom=True)
        figure.supxlabel("round", fontsize=8.5)
        figure.supylabel(REWARD, fontsize=8.5)
        return figure

    return draw


mean_over_seeds = curves({"mean": ""}, REWARD)
"""Draws the agent-averaged reward over the rounds."""


# ── style ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def look(evidence: Evidence, configuration: str) -> tuple[str, str]:
    """Returns a configuration's colour and line, everywhere the same."""
    place = evidence.configurations.index(configuration)
    return PALETTE[place % len(PALETTE)], LINES[place // len(PALETTE) % len(LINES)]


def split(evidence: Evidence, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields each configuration that has rows, in the study's order, with these."""
    for name in evidence.configurations:
        if len(own := rows[rows["configuration"] == name]):
            yield name, own


def new_figure(height: float, columns: int = 1, lines: int = 1) -> tuple[Figure, list[Any]]:
    """Returns a figure `height` inches high and its panels, line by line, which share both scales."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flat)


def draw_band(axis: Any, rounds: Any, low: Any, high: Any, colour: str) -> None:
    """Fills what lies between two curves over the rounds."""
    axis.fill_between(rounds, low, high, color=colour, alpha=0.18, linewidth=0)


def legend_below(figure: Figure) -> None:
    """One legend for the whole figure, under it, in as many columns as its width has room for."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    longest = max(map(len, labels), default=0) + LEGEND_MARK
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, min(4, LEGEND_WIDTH // longest)))


@contextmanager
def figure_style() -> Iterator[None]:
    """Makes and saves figures in this style within the block."""
    with matplotlib.rc_context(STYLE):
        yield


def encoded(figure: Figure, form: str) -> bytes:
    """Returns a figure on white, as one of UNDATED; letters of an SVG are outlines, those of a PDF are text."""
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=180, facecolor="white", metadata=UNDATED[form])
    return file.getvalue()
