"""The section on the cumulative reward: comparisons with the baselines, analysis of variance, bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from swarm.plugins.study.analysis.baseline import Variance, compare_with_baseline, finished, variance_by_group
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, Anova
from swarm.plugins.study.budget import said_of_sizes, unequal_budgets
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report import paper
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import INK, FigureStyle, legend_below, new_figure
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    INTERVAL,
    TOO_FEW,
    Column,
    Picture,
    Section,
    Table,
    is_missing,
    number,
    p_text,
    p_value,
    signed,
    whole,
)

EXPLORATORY = "exploratory"
"""Why there is no p-value, where none is wanted."""
NO_TESTS = "This matrix is exploratory: no p-values."


def headline_section(evidence: Evidence) -> Section:
    """Table, bars and the analysis of variance, over finished runs."""
    record = evidence.record
    compared = comparison_table(evidence.runs, record)
    if compared.empty:
        return Section("Cumulative reward", ("No run is finished yet, so there is nothing to compare.",))
    tested = (
        "p is that of Welch's two-sided t-test against the baseline. "
        f"{_family(record)} Hedges' g is the difference in pooled standard deviations. "
        f"With fewer than {FEWEST_SEEDS} seeds on either side there is neither interval nor test: {TOO_FEW}."
    )
    text = (
        "Cumulative reward is the sum over nodes and rounds of a node's mean reward per completion on its own "
        "questions, the paper's measure. Only finished runs count, and each counts once: the seed is the unit. sd is "
        "over seeds (n - 1). The interval of a mean is that of Student's t; that of an improvement, the mean over the "
        "baseline's mean, is of the ratio's logarithm with Welch's degrees of freedom. "
        f"{tested if record.tests else NO_TESTS}",
        *filter(None, [said_of_sizes(record)]),
        *(f"{said}, so that the difference is not the effect of sharing alone." for said in unequal_budgets(record)),
        *(_variance_text(found) for found in variance_by_group(evidence.runs, record) if record.tests),
    )
    left_out = {"p_holm"} if record.declared else set() if record.tests else {"p", "p_holm"}
    columns = tuple(column for column in _COLUMNS if column.source not in left_out)
    table = Table("comparison", "Cumulative reward by configuration.", compared, columns)
    runs = finished(evidence.runs, record)
    return Section("Cumulative reward", text, (table, *_figures(compared, runs, record, evidence.look)))


def _family(record: StudyRecord) -> str:
    if record.declared:
        return "It is not adjusted: the family of this page is what was declared, above."
    return "Holm's p is adjusted over all rows of this table: they are the one family of this page."


def comparison_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Comparisons as a frame, with `untested`: why there is no p-value. A row per configuration with finished runs."""
    compared = pd.DataFrame(compare_with_baseline(totals, record))
    if compared.empty:
        return compared
    seeds = dict(zip(compared["configuration"], compared["n"], strict=True))
    untested = [_why_untested(row, seeds) if record.tests else EXPLORATORY for row in compared.to_dict("records")]
    numbers = compared.columns.difference(["configuration", "group", "baseline"])
    return compared.astype(dict.fromkeys(numbers, "float64")).astype({"n": "int64"}).assign(untested=untested)


def _why_untested(row: dict[Any, Any], seeds: dict[str, int]) -> str:
    if not row["baseline"]:
        return "baseline" if is_missing(row["p"]) else ""
    if not is_missing(row["p"]):
        return ""
    fewest = min(seeds[str(row["configuration"])], seeds.get(str(row["baseline"]), 0))
    return TOO_FEW if fewest < FEWEST_SEEDS else "no spread"


def _variance_text(found: Variance) -> str:
    over = f"Analysis of variance over {', '.join(found.configurations)}"
    where = f" ({found.group})" if found.group else ""
    test: Anova = found.anova
    if test.f is None or test.p is None:
        return f"{over}{where}: not computed; every configuration needs at least {FEWEST_SEEDS} finished runs."
    classic = f"F({test.df_between}, {test.df_within}) = {test.f:.2f}, {p_text(test.p)}"
    if test.welch_f is None or test.welch_p is None or test.welch_df_within is None:
        return f"{over}{where}: {classic}."
    robust = f"F({test.df_between}, {test.welch_df_within:.1f}) = {test.welch_f:.2f}, {p_text(test.welch_p)}"
    return f"{over}{where}: {classic}; without assuming equal variances (Welch) {robust}."


def _figures(compared: pd.DataFrame, runs: pd.DataFrame, record: StudyRecord, look: FigureStyle) -> tuple[Picture, ...]:
    matches = [name for name in compared["configuration"] if name in paper.CUMULATIVE_REWARD]
    beside = paper.same_scale(record)
    published = {name: paper.CUMULATIVE_REWARD[name] for name in matches} if beside else {}
    caption = "Cumulative reward: mean over seeds, 95 % interval, one dot per seed."
    if matches:
        caption += " Diamonds: the paper's sums." if beside else f" {_why_not_beside(record)}"
    bars = Picture("cumulative_reward", caption, cumulative_bars(compared, runs, look, published))
    if compared["improvement"].isna().all():
        return (bars,)
    gain = "Improvement of the mean over the baseline's, with its 95 % interval."
    pairs = zip(compared["configuration"], compared["baseline"], strict=True)
    if any(paper.improvement(a, b) is not None for a, b in pairs):
        gain += (
            f" Diamonds: the paper's improvements over its own sum of the same baseline (Qwen2.5-0.5B, {paper.NODES} "
            f"nodes, {paper.ROUNDS} rounds; one sum per configuration, without a spread)."
        )
    return bars, Picture("improvement", gain, improvement_bars(compared, look))


def _why_not_beside(record: StudyRecord) -> str:
    return (
        f"The paper's sums are over {paper.NODES} nodes and {paper.ROUNDS} rounds, these over {record.nodes} nodes and "
        f"{record.rounds} rounds, so they are not drawn here; the percentages below do compare."
    )


def cumulative_bars(
    compared: pd.DataFrame, runs: pd.DataFrame, look: FigureStyle, published: Mapping[str, float]
) -> Any:
    """Returns one bar per configuration: mean over seeds, its interval, and a dot for each seed.

    Args:
        compared: one row per configuration, the fields of swarm.plugins.study.analysis.baseline.Comparison.
        runs: one row per finished run, from swarm.plugins.study.analysis.measures.totals.
        look: the study's configurations.
        published: configuration -> the paper's sum, where it may stand beside these.
    """
    figure, axis = _rows(compared)
    places = np.arange(len(compared))
    names = compared["configuration"].tolist()
    axis.barh(places, compared["mean"], height=0.62, color=[look.colour(name) for name in names], alpha=0.55)
    _interval(axis, places, compared, "mean", "low", "high", "95 % interval over seeds")
    for place, name in zip(places, names, strict=True):
        seeds = runs.loc[runs["configuration"] == name, "cumulative_reward"]
        axis.scatter(seeds, np.full(len(seeds), place + 0.2), s=7, color=look.colour(name), zorder=3)
    axis.scatter([], [], s=7, color=INK, label="one seed")
    _published(axis, names, published)
    axis.set(xlabel="cumulative reward (sum over nodes and rounds)")
    legend_below(figure, 2)
    return figure


def improvement_bars(compared: pd.DataFrame, look: FigureStyle) -> Any:
    """Returns one row per configuration with a baseline: percent above it, its interval, and the paper's percentage."""
    shown = compared.dropna(subset=["improvement"]).reset_index(drop=True)
    figure, axis = _rows(shown)
    places = np.arange(len(shown))
    names = shown["configuration"].tolist()
    colours = [look.colour(name) for name in names]
    axis.axvline(0, color=INK, linewidth=0.8)
    _interval(axis, places, shown, "improvement", "improvement_low", "improvement_high", "95 % interval")
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


_COLUMNS = (
    CONFIGURATION,
    Column("n", "n", whole),
    Column("mean", "mean", number(2)),
    Column("sd", "sd", number(2)),
    Column(INTERVAL, "low", number(2), to="high"),
    Column("improvement, %", "improvement", signed(1)),
    Column(INTERVAL, "improvement_low", signed(1), to="improvement_high"),
    Column("p", "p", p_value, instead="untested"),
    Column("Holm's p", "p_holm", p_value, instead="untested"),
    Column("Hedges' g", "hedges_g", number(2)),
)
