"""The section on words that planters put in front of right answers: how far they spread, and what that costs."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.overlap import PIECE, SHARD
from swarm.plugins.study.analysis.planted import FINAL_ROUNDS, MEASURES
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.sections import CONFIGURATION, Column, Picture, Section, Table, number, percent
from swarm.plugins.study.report.sections_factors import column_curves

SHOWN = {"pieces": "with a piece of the planted words", "tagged": "with a closed answer"}
"""Columns of planted_by_round that are drawn, and their titles."""


def planted_section(evidence: Evidence) -> Section | None:
    """Makes the section on planted words; None where no run counted them."""
    table = planted_table(evidence)
    if table.empty:
        return None
    parts: list[Table | Picture] = [Table("planted", "Honest nodes, by configuration.", table, _COLUMNS)]
    if len(evidence.planted):
        parts.append(
            Picture(
                "planted_curves",
                "Honest nodes: share of own completions with a piece of the planted words, and with a closed answer. "
                "Mean over seeds, 95 % interval.",
                column_curves(evidence.planted, SHOWN, evidence.look, evidence.window),
            )
        )
    return Section(
        "Planted words",
        (
            "Some workers publish their right answers with planted words in front (SWARM_PLANTERS, an instrument of "
            "studies). Of the other, honest nodes: the share of own completions that begin with all of these words, "
            f"and that hold a piece of them, {PIECE} successive characters anywhere, or a shard, {SHARD}; the mean "
            "log-prob per token that their policies gave to the planters' right answers on which they trained; the "
            f"share of own completions with a closed answer, all in the last {FINAL_ROUNDS} rounds; the mean reward of "
            "a closed answer, and what one node earns, in all rounds. Means over the runs that count.",
        ),
        tuple(parts),
    )


def planted_table(evidence: Evidence) -> pd.DataFrame:
    """Returns one row per configuration with a run that counted: the mean of each measure; `pieces_final` and
    `shards_final`, the former with its least and most of a run, NaN where no rollout files were at hand."""
    if not set(MEASURES) <= set(evidence.counted):
        return pd.DataFrame()
    counted = evidence.counted[evidence.counted["planted"].notna()]
    found = counted.groupby("configuration", observed=True)[[*MEASURES]].mean()
    for column in ("pieces_final", "pieces_least", "pieces_most", "shards_final"):
        found[column] = float("nan")
    if len(rounds := evidence.planted):
        last = rounds[rounds["round"] > rounds.groupby("experiment")["round"].transform("max") - FINAL_ROUNDS]
        runs = last.groupby(["configuration", "seed"])[["pieces", "shards"]].mean().groupby("configuration")
        found["pieces_final"], found["shards_final"] = runs["pieces"].mean(), runs["shards"].mean()
        found["pieces_least"], found["pieces_most"] = runs["pieces"].min(), runs["pieces"].max()
    return evidence.look.in_order(found.reset_index(), "configuration")


_COLUMNS = (
    CONFIGURATION,
    Column("begin with the words", "planted_final", percent),
    Column("hold a piece of them", "pieces_final", percent),
    Column("least", "pieces_least", percent),
    Column("most", "pieces_most", percent),
    Column("hold a shard", "shards_final", percent),
    Column("log-prob of planters' texts", "planters_logprob", number(2)),
    Column("closed answers", "honest_tagged_final", percent),
    Column("reward of a closed answer", "honest_given_tagged", number(3)),
    Column("cumulative reward of an honest node", "honest_reward", number(2)),
)
