"""The section on informative groups, for studies whose configurations have swarms of different size."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.supply import COLUMNS, START_ROUNDS, expected_informative, supply_by_configuration
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import INK, FigureStyle, legend_below, new_figure
from swarm.plugins.study.report.sections import CONFIGURATION, Column, Picture, Section, Table, number, whole


def supply_section(evidence: Evidence) -> Section | None:
    """Expected and measured informative groups per node and round, and the reward against them."""
    rounds = evidence.counted_rounds
    if not evidence.record.sizes or not {*COLUMNS} <= {*rounds} or rounds[[*COLUMNS]].isna().all().any():
        return None
    table = supply_by_configuration(rounds, evidence.record)
    return Section(
        "Informative groups and the size of the swarm",
        (
            "A node learns from groups whose rewards differ. With q the share of such groups among fresh questions, a "
            "node of a swarm of N trains on I q of its own and on E[min(J, X)] of its peers', X ~ Binomial((N - 1) I, "
            f"q). To begin with q is that of the first {START_ROUNDS} rounds of all runs of a group; the other "
            "expected number takes each round's own q. If what a larger swarm gives is more such groups and nothing "
            "else, rewards of all sizes lie on one curve over the expected number.",
        ),
        (
            Table("informative_groups", "Per node and round.", table, _COLUMNS),
            Picture(
                "expected_informative",
                "Informative groups per node and round against the number of nodes, for each split: what is expected "
                "at the q of the start (line), at each round's own q (circles), and what was measured (crosses).",
                groups_against_size(table, evidence.look),
            ),
            Picture(
                "reward_against_informative",
                "Mean reward per node and round against the informative groups that are expected at the q of the "
                "start: one mark per configuration, mean over seeds; the line joins the configurations.",
                reward_against_groups(table, evidence.look),
            ),
        ),
    )


def groups_against_size(table: pd.DataFrame, look: FigureStyle) -> Any:
    """Theory as one line per split and start, theory by rounds and measurement as marks."""
    figure, (axis,) = new_figure(3.0)
    most = int(table["nodes"].max())
    splits = table[["local", "external", "share"]].drop_duplicates()
    for local, external, share in splits.itertuples(index=False, name=None):
        sizes = range(1, most + 1)
        expected = [expected_informative(nodes, local, external, share) for nodes in sizes]
        axis.plot(sizes, expected, color=INK, linewidth=0.9, label="expected at the start")
    for name, rows in look.split(table):
        axis.scatter(rows["nodes"], rows["expected"], s=30, facecolor="none", edgecolor=look.colour(name), label=name)
        axis.scatter(rows["nodes"], rows["measured"], s=26, marker="x", color=look.colour(name))
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set(xlabel="nodes", ylabel="informative groups")
    legend_below(figure, 4)
    return figure


def reward_against_groups(table: pd.DataFrame, look: FigureStyle) -> Any:
    """Reward over expected informative groups: one mark per configuration."""
    figure, (axis,) = new_figure(3.0)
    ordered = table.sort_values("expected_start", kind="stable")
    axis.plot(ordered["expected_start"], ordered["reward"], color=INK, linewidth=0.8)
    for name, rows in look.split(table):
        axis.scatter(rows["expected_start"], rows["reward"], s=30, color=look.colour(name), label=name, zorder=3)
    axis.set(xlabel="informative groups per node and round, expected at the start", ylabel="mean reward")
    legend_below(figure, 4)
    return figure


_COLUMNS = (
    CONFIGURATION,
    Column("nodes", "nodes", whole),
    Column("I", "local", whole),
    Column("J", "external", whole),
    Column("q at the start", "share", number(4)),
    Column("expected at the start", "expected_start", number(3)),
    Column("expected, by round", "expected", number(3)),
    Column("measured", "measured", number(3)),
    Column("mean reward", "reward", number(4)),
)
