"""The section on the effect of sharing against the starting reward."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.baseline import effect_by_start
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import INK, FigureStyle, legend_below, new_figure
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    INTERVAL,
    Column,
    Picture,
    Section,
    Table,
    number,
    signed,
    whole,
)

APART = 0.02
"""Share of the starting reward by which marks of one group stand apart."""
LINEAR_BELOW = 10.0
"""Percent: effects below it are drawn on a linear scale, since they may be 0 or negative."""


def start_section(evidence: Evidence) -> Section:
    """Returns the improvement of every configuration over its baseline, against the baseline's starting reward."""
    effect = effect_by_start(evidence.runs, evidence.record)
    text = (
        "A group of rollouts teaches only if some of its completions earn more than others, so the effect of sharing "
        "may depend on how often the models succeeded to begin with. The starting reward is the mean of round 0, "
        "before any update, over all finished runs of a group of configurations. One row per group and configuration; "
        "with a single group all rows have one starting reward, and the table says at which one the effects of this "
        "study were measured.",
    )
    if effect.empty:
        return Section("Effect against the starting reward", (*text, "No configuration has a finished baseline yet."))
    table = Table("effect_by_start", "Improvement over the baseline, by starting reward.", effect, _COLUMNS)
    figure = Picture(
        "effect_against_start",
        "Improvement over the baseline with its 95 % interval, against the group's starting reward. Marks "
        "of one group are set a little apart.",
        effect_against_start(effect, evidence.look),
    )
    return Section("Effect against the starting reward", text, (table, figure))


def effect_against_start(effect: pd.DataFrame, look: FigureStyle) -> Any:
    """Improvement over starting reward: one mark per configuration.

    Groups may start at rewards, and end with effects, of quite different sizes: then both scales are logarithmic, that
    of the effect but for its middle.
    """
    figure, (axis,) = new_figure(3.0)
    axis.axhline(0, color=INK, linewidth=0.8)
    places = _places(effect)
    several = effect["group"].nunique() > 1 and bool((effect["starting_reward"] > 0).all())
    for name, rows in look.split(effect.astype({"improvement": float})):
        x = rows["starting_reward"] * (1 + APART * places[name])
        known = rows["improvement_low"].notna()
        interval = [
            (rows["improvement"] - rows["improvement_low"])[known].clip(lower=0),
            (rows["improvement_high"] - rows["improvement"])[known].clip(lower=0),
        ]
        colour = look.colour(name)
        axis.errorbar(x[known], rows["improvement"][known], yerr=interval, fmt="none", ecolor=colour, capsize=2)
        axis.scatter(x, rows["improvement"], s=26, color=colour, label=name, zorder=3)
    axis.set(xlabel="starting reward (round 0)", ylabel="improvement, percent")
    if several:
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=LINEAR_BELOW)
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter("{x:g}")
    else:
        axis.set_xlim(0, 1.2 * max(0.01, float(effect["starting_reward"].max())))
    legend_below(figure, 3)
    return figure


def _places(effect: pd.DataFrame) -> dict[str, float]:
    """Returns where each configuration stands among those of its group, 0 in the middle."""
    return {
        str(name): place - (len(rows) - 1) / 2
        for _, rows in effect.groupby("group")
        for place, name in enumerate(rows["configuration"])
    }


_COLUMNS = (
    Column("group", "group", numeric=False),
    CONFIGURATION,
    Column("baseline", "baseline", numeric=False),
    Column("n", "n", whole),
    Column("starting reward", "starting_reward", number(4)),
    Column("improvement, %", "improvement", signed(1)),
    Column(INTERVAL, "improvement_low", signed(1), to="improvement_high"),
    Column("Hedges' g", "hedges_g", number(2)),
)
