"""The sections on which of the two factors of the reward moved: the format, or the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.baseline import Factors, format_and_content
from swarm.plugins.study.analysis.curves import by_seed, common_rounds, smooth
from swarm.plugins.study.analysis.measures import FINAL_ROUNDS
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FigureStyle, draw_mean, legend_below, panels
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    INTERVAL,
    Column,
    Picture,
    Section,
    Table,
    is_missing,
    number,
    percent,
    times,
)

PARTS = ("format", "content")
SHOWN = {"tagged": "closed answers", "given_tagged": "reward of these"}
"""Columns of the rounds that are drawn, and their titles."""
ROUNDING = 0.005
"""An interval that comes as near to 1 as this holds it: two decimals do not tell the two apart."""


def factors_section(evidence: Evidence) -> Section:
    """Returns the factor by which a configuration's reward differs from its baseline's, and of which two it is made."""
    table = factors_table(evidence)
    text = (
        "A completion without a closed <answer> earns nothing, so in every run the cumulative reward is the product of "
        "two: the format, the sum over nodes and rounds of the share of completions with a closed answer (cumulative "
        "tagged), and the content, the mean reward of such a completion (reward given tagged). The table has the ratio "
        "of each to the baseline's, mean over seeds by mean over seeds, with its interval. A factor whose interval "
        "holds 1, to two decimals, is not shown to have moved. Nobody declared these, and the intervals are unpaired.",
        *(said for row in table.to_dict("records") if (said := what_moved(row))),
    )
    picture = Picture(
        "format_and_content",
        "Share of completions with a closed answer, and mean reward of these, over the rounds: mean over seeds, 95 % "
        f"interval, moving average over {evidence.window} rounds. A round without any such completion has no reward "
        "of them.",
        column_curves(evidence.rounds, SHOWN, evidence.look, evidence.window),
    )
    if table.empty:
        return Section("Format and content", text[:1], (picture,))
    return Section("Format and content", text, (Table("factors", "Against the baseline.", table, _FACTORS), picture))


def factors_table(evidence: Evidence) -> pd.DataFrame:
    """format_and_content as a frame."""
    table = pd.DataFrame(format_and_content(evidence.runs, evidence.record), columns=Factors._fields)
    return table.astype(dict.fromkeys(Factors._fields[2:], "float64"))


def what_moved(row: dict[Any, Any]) -> str:
    """Returns a sentence on a configuration; empty where its reward has no ratio, such as of nothing to nothing.

    Args:
        row: of factors_table.
    """
    if is_missing(row["reward"]) or any(is_missing(row[part]) for part in PARTS):
        return ""
    factors = f"{_factor(row, 'reward')} = format {_factor(row, 'format')} and content {_factor(row, 'content')}"
    where = f"{row['configuration']} against {row['baseline']}: reward {factors}."
    if any(is_missing(row[f"{part}_low"]) for part in PARTS):
        return f"{where} Without intervals nobody can say which of them moved."
    moved = [f"the {part} {_way(row, part)}" for part in PARTS if _way(row, part)]
    still = [f"the {part}" for part in PARTS if not _way(row, part)]
    if not moved:
        return f"{where} Neither is shown to have moved."
    others = f"; not shown to have moved: {still[0]}" if still else ""
    return f"{where} What moved (looked at afterwards): {' and '.join(moved)}{others}."


def _factor(row: dict[Any, Any], part: str) -> str:
    low, high = row[f"{part}_low"], row[f"{part}_high"]
    return times(row[part]) + ("" if is_missing(low) else f" ({low:.2f} to {high:.2f})")


def _way(row: dict[Any, Any], part: str) -> str:
    return "up" if row[f"{part}_low"] > 1 + ROUNDING else "down" if row[f"{part}_high"] < 1 - ROUNDING else ""


def column_curves(rounds: pd.DataFrame, shown: Mapping[str, str], look: FigureStyle, window: int) -> Any:
    """Returns a panel over the rounds for each of these columns: one line per configuration, mean over seeds.

    Args:
        shown: column -> title of its panel.
    """
    figure, axes = panels(len(shown), 2.4)
    for axis, (column, title) in zip(axes, shown.items(), strict=True):
        for name, rows in look.split(rounds):
            curves = common_rounds(smooth(by_seed(rows, column), window))
            if not curves.empty:
                draw_mean(axis, look, name, curves)
        axis.set(title=title, xlabel="round")
    legend_below(figure, 4)
    return figure


def tasks_section(evidence: Evidence) -> Section | None:
    """Format and content task by task, where the rows tell them."""
    if evidence.tasks.empty:
        return None
    means = evidence.tasks.drop(columns=["seed", "experiment"]).groupby(["task", "configuration"]).mean().reset_index()
    table = Table("tasks", "By task and configuration.", evidence.look.in_order(means, "task", "configuration"), _TASKS)
    return Section(
        "Format and content by task",
        (
            f"Share of completions with a closed answer, and mean reward of these, in the first and in the last "
            f"{FINAL_ROUNDS} rounds, over the nodes that asked themselves the task in these; means over seeds.",
        ),
        (table,),
    )


_FACTORS = (
    CONFIGURATION,
    Column("against", "baseline", numeric=False),
    Column("reward", "reward", times),
    Column(INTERVAL, "reward_low", number(2), to="reward_high"),
    Column("format", "format", times),
    Column(INTERVAL, "format_low", number(2), to="format_high"),
    Column("content", "content", times),
    Column(INTERVAL, "content_low", number(2), to="content_high"),
)
_TASKS = (
    Column("task", "task", numeric=False),
    CONFIGURATION,
    Column("closed answers, first rounds", "tagged_first", percent),
    Column("last rounds", "tagged_last", percent),
    Column("reward of these, first rounds", "given_tagged_first", number(3)),
    Column("last rounds", "given_tagged_last", number(3)),
)
