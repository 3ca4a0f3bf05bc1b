"""The section on the adaptive split of I and J: where J went, how restlessly, and what the rules saw meanwhile."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import by_seed, common_rounds
from swarm.plugins.study.analysis.measures import FINAL_ROUNDS, median_or_later
from swarm.plugins.study.analysis.splits import NEAR, THIRDS, moves_by_configuration, quality_and_split, split_measures
from swarm.plugins.study.budget import not_adapting
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FigureStyle, draw_band, draw_curve, legend_below, new_figure
from swarm.plugins.study.report.sections import CONFIGURATION, Column, Picture, Section, Table, number, percent, whole
from swarm.plugins.study.report.sections_factors import column_curves

SIGNALS = {"own_informative": "own groups with an advantage", "swarm_quality": "peers' groups with an advantage"}
"""Columns of splits_by_round that are drawn, and their titles."""


def split_section(evidence: Evidence) -> Section | None:
    """Makes the section on adaptive splits; None where no configuration adapts."""
    table = split_table(evidence)
    if table.empty:
        return None
    text = ["I + J is constant; J is what the rule asked for in a round."]
    parts: list[Table | Picture] = []
    if evidence.metrics is not None:
        text.append(
            "The line of the first figure is the mean over nodes and seeds, the band the range over these nodes (min "
            f"to max), not an interval, both as moving averages over {evidence.window} rounds and over the rounds that "
            "all seeds have reached."
        )
        trajectory = split_trajectory(evidence.metrics, evidence.look, evidence.window)
        parts.append(Picture("split_trajectory", "J over the rounds.", trajectory))
    parts.append(Table("split", "I and J over all rounds, nodes and seeds.", table, _SPLIT))
    if not evidence.splits.empty:
        text += not_adapting(evidence.record, moves_by_configuration(evidence.splits))
        text.append(
            "Thirds are those of a run's rounds, by J before it was rounded, mean over the nodes. A change is a "
            "rounded J that is another than that of the node's round before. J has settled in the first round from "
            f"which on it stays within {NEAR:g} groups of its mean over the last {FINAL_ROUNDS} rounds; shown is the "
            "median over seeds, and nothing where half of them had not settled before these rounds. The share of the "
            "peers' groups with an advantage is what the rules call swarm quality, there as a mean of ten rounds. "
            "Quality and J is the correlation of the two "
            "over a run's rounds (Pearson), mean over seeds; two that only rise together have one, too, so beside it "
            "stands that of their changes from round to round."
        )
        phases = evidence.look.in_order(phases_table(evidence), "configuration")
        parts.append(Table("split_phases", "J by third of the run, and how restless it was.", phases, _PHASES))
        signals = column_curves(evidence.splits, SIGNALS, evidence.look, evidence.window)
        caption = f"What the rules see: mean over seeds, 95 % interval, moving average over {evidence.window} rounds."
        parts.append(Picture("split_signals", caption, signals))
    return Section("How the split moved", tuple(text), tuple(parts))


def split_table(evidence: Evidence) -> pd.DataFrame:
    """Returns one row per configuration that adapts: means and extremes over all its runs."""
    adaptive = evidence.runs.dropna(subset=["mean_adaptive_J"])
    means = adaptive.groupby("configuration", observed=True).agg(
        adaptive_I_mean=("mean_adaptive_I", "mean"),
        adaptive_J_mean=("mean_adaptive_J", "mean"),
        adaptive_J_min=("least_adaptive_J", "min"),
        adaptive_J_max=("most_adaptive_J", "max"),
    )
    return evidence.look.in_order(means.reset_index(), "configuration")


def phases_table(evidence: Evidence) -> pd.DataFrame:
    """Returns one row per configuration with splits by round: split_measures, means over its runs; of `settled` the
    median."""
    runs = split_measures(evidence.splits).groupby("configuration", sort=False, observed=True)
    table = runs[[*THIRDS, "changes"]].mean()
    table["settled"] = runs["settled"].agg(median_or_later)
    together = quality_and_split(evidence.splits).groupby("configuration", sort=False, observed=True)
    table[["quality_J", "quality_J_changes"]] = together.mean()
    return table.reset_index()


def split_trajectory(metrics: pd.DataFrame, look: FigureStyle, window: int) -> Any:
    """J over the rounds: moving average of the mean over all nodes and seeds, and the range of these over the nodes."""
    figure, (axis,) = new_figure(3.2)
    adaptive = metrics.dropna(subset=["adaptive_J"])
    for name, rows in look.split(adaptive):
        nodes = rows.pivot_table(index="round", columns=["seed", "node_id"], values="adaptive_J", aggfunc="last")
        reached = common_rounds(by_seed(rows, "adaptive_J")).index
        nodes = nodes.loc[reached].astype(float).rolling(window, min_periods=1).mean()
        draw_curve(axis, look, name, nodes.index, nodes.mean(axis=1))
        draw_band(axis, look.colour(name), nodes.index, nodes.min(axis=1), nodes.max(axis=1), alpha=0.12)
    axis.set(xlabel="round", ylabel="J, external groups")
    axis.set_ylim(0, float((adaptive["adaptive_I"] + adaptive["adaptive_J"]).max()))
    legend_below(figure, 3)
    return figure


_SPLIT = (
    CONFIGURATION,
    Column("mean I", "adaptive_I_mean", number(2)),
    Column("mean J", "adaptive_J_mean", number(2)),
    Column("least J", "adaptive_J_min", whole),
    Column("largest J", "adaptive_J_max", whole),
)
_PHASES = (
    CONFIGURATION,
    Column("J, first third", "J_first", number(2)),
    Column("J, middle third", "J_middle", number(2)),
    Column("J, last third", "J_last", number(2)),
    Column("rounds with a change", "changes", percent),
    Column("settled in round", "settled", number(0)),
    Column("quality and J", "quality_J", number(2)),
    Column("their changes", "quality_J_changes", number(2)),
)
