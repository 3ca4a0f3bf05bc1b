"""Configurations beside each other: their cumulative rewards, and how far they lie above their baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from swarm.study.report import paper
from swarm.study.report.figure_style import INK, Look, legend_below, new_figure


def cumulative_bars(compared: pd.DataFrame, runs: pd.DataFrame, look: Look, published: Mapping[str, float]) -> Any:
    """One bar per configuration: mean over seeds, bootstrap interval, and a dot for each seed.

    Args:
        compared: one row per configuration, the fields of swarm.study.analysis.baseline.Comparison.
        runs: one row per finished run, from swarm.study.analysis.measures.totals.
        look: the study's configurations.
        published: configuration -> the paper's sum, where it may stand beside these.
    """
    figure, axis = _rows(compared)
    places = np.arange(len(compared))
    names = compared["configuration"].tolist()
    axis.barh(places, compared["mean"], height=0.62, color=[look.colour(name) for name in names], alpha=0.55)
    _interval(axis, places, compared, "mean", "low", "high", "95 % bootstrap interval over seeds")
    for place, name in zip(places, names, strict=True):
        seeds = runs.loc[runs["configuration"] == name, "cumulative_reward"]
        axis.scatter(seeds, np.full(len(seeds), place + 0.2), s=7, color=look.colour(name), zorder=3)
    axis.scatter([], [], s=7, color=INK, label="one seed")
    _published(axis, names, published)
    axis.set(xlabel="cumulative reward (sum over nodes and rounds)")
    legend_below(figure, 2)
    return figure


def improvement_bars(compared: pd.DataFrame, look: Look) -> Any:
    """One row per configuration with a baseline: percent above it, bootstrap interval, and the paper's percentage."""
    shown = compared.dropna(subset=["improvement"]).reset_index(drop=True)
    figure, axis = _rows(shown)
    places = np.arange(len(shown))
    names = shown["configuration"].tolist()
    colours = [look.colour(name) for name in names]
    axis.axvline(0, color=INK, linewidth=0.8)
    _interval(axis, places, shown, "improvement", "improvement_low", "improvement_high", "95 % bootstrap interval")
    axis.scatter(shown["improvement"], places, s=34, color=colours, zorder=3)
    axis.scatter([], [], s=34, color=INK, label="this study")
    pairs = zip(names, shown["baseline"], strict=True)
    _published(axis, names, {a: value for a, b in pairs if (value := paper.improvement(a, b)) is not None})
    axis.set(xlabel="cumulative reward against the baseline, percent")
    legend_below(figure, 3)
    return figure


def _rows(rows: pd.DataFrame) -> tuple[Any, Any]:
    """Axes with one named row per configuration, the first on top."""
    figure, (axis,) = new_figure(1.1 + 0.36 * len(rows))
    axis.set_yticks(range(len(rows)), rows["configuration"].tolist())
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    return figure, axis


def _interval(axis: Any, places: Any, rows: pd.DataFrame, value: str, low: str, high: str, label: str) -> None:
    known = rows[low].notna() & rows[high].notna()
    if not known.any():
        return
    found = rows[known].astype({value: float, low: float, high: float})
    reach = np.maximum(0, [found[value] - found[low], found[high] - found[value]])
    axis.errorbar(
        found[value], places[known], xerr=reach, fmt="none", ecolor=INK, elinewidth=1.1, capsize=3, label=label
    )


def _published(axis: Any, names: list[str], published: Mapping[str, float]) -> None:
    places = [place for place, name in enumerate(names) if name in published]
    if places:
        values = [published[names[place]] for place in places]
        axis.scatter(values, places, marker="D", s=30, facecolor="none", edgecolor=INK, zorder=4, label="the paper")
