"""Sections on the rounds to a threshold, oscillation, and the final reward."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.curves import by_seed
from swarm.plugins.study.analysis.measures import (
    COSTS,
    FINAL_ROUNDS,
    SHARES_OF_BEST,
    STEEP,
    WINDOW,
    drawdowns,
    median_or_later,
    oscillation,
    rounds_to_threshold,
    thresholds_of,
)
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FigureStyle
from swarm.plugins.study.report.sections import CONFIGURATION, Column, Picture, Section, Table, number, percent, whole
from swarm.plugins.study.report.sections_factors import column_curves


def thresholds_section(evidence: Evidence) -> Section:
    """Sample efficiency, in rounds and in what they cost."""
    reached = rounds_to_threshold(evidence.counted_rounds, thresholds_of(evidence.counted))
    shares = ", ".join(f"{share * 100:.0f} %" for share in SHARES_OF_BEST)
    return Section(
        "Rounds to a threshold",
        (
            f"How soon the agent average, as a moving average over {WINDOW} rounds, reached {shares} of the best "
            f"configuration's final reward (its mean over the last {FINAL_ROUNDS} rounds and the seeds). Medians are "
            "over all seeds: one that never got there would have taken longer than any that did, and where half of "
            "them never did there is no median. First and last are of the seeds that got there.",
        ),
        (
            Table(
                "rounds_to_threshold",
                "By threshold and configuration.",
                _by_threshold(reached, evidence.look),
                _THRESHOLDS,
            ),
        ),
    )


def _by_threshold(reached: pd.DataFrame, look: FigureStyle) -> pd.DataFrame:
    groups = reached.groupby(["threshold", "configuration"], sort=True, observed=True)
    found = groups.agg(
        seeds=("seed", "size"),
        reached=("round", "count"),
        round=("round", median_or_later),
        first=("round", "min"),
        last=("round", "max"),
        **{cost: (cost, median_or_later) for cost in COSTS},
    )
    return look.in_order(found.reset_index(), "threshold", "configuration")


def steadiness_section(evidence: Evidence) -> Section:
    """Oscillation."""
    look, runs = evidence.look, oscillation(evidence.counted_rounds)
    groups = runs.groupby("configuration", observed=True)
    found = groups.agg(
        seeds=("seed", "size"),
        steep_drops=("steep_drops", "mean"),
        most_steep_drops=("steep_drops", "max"),
        max_drawdown=("max_drawdown", "mean"),
        max_drawdown_share=("max_drawdown_share", "mean"),
        worst_drawdown_share=("max_drawdown_share", "max"),
    )
    return Section(
        "Oscillation",
        (
            f"Measured on the agent average as a moving average over {WINDOW} rounds. A drop is steep if it takes "
            f"more than {STEEP * 100:.0f} % of the run's highest value within {WINDOW} rounds. The drawdown is the "
            "most by which a run ever lay below what it had reached before. Both are per run; the table shows their "
            "means and worst over seeds.",
        ),
        (
            Table(
                "oscillation", "By configuration.", look.in_order(found.reset_index(), "configuration"), _OSCILLATION
            ),
            Picture(
                "drawdown",
                "The moving average, and how far it lies below what the run had reached before: means over seeds with "
                "their 95 % interval. A line that leaves 0 below is a run that falls back.",
                column_curves(drawdowns(evidence.counted_rounds), _DRAWDOWN, look, 1),
            ),
        ),
    )


def final_section(evidence: Evidence) -> Section:
    """Makes the section on what the runs ended with, and how much of it is whole answers."""
    look, runs = evidence.look, evidence.counted.groupby("configuration", observed=True)
    found = runs.agg(
        seeds=("seed", "size"),
        starting_reward=("starting_reward", "mean"),
        final_reward=("final_reward", "mean"),
        final_sd=("final_reward", "std"),
    )
    found["full_answers_first"], found["full_answers_last"] = (
        _full_answers(evidence.counted_rounds, first=first) for first in (True, False)
    )
    return Section(
        "Final reward and whole answers",
        (
            f"Final reward is the mean over the last {FINAL_ROUNDS} rounds, starting reward that of round 0, before "
            "any update. Some tasks pay a little for an answer that is wrong; the share of full answers is free of "
            "such floors: completions on own questions with the full reward, in the first and the last "
            f"{FINAL_ROUNDS} rounds. Means over seeds; sd over seeds.",
        ),
        (Table("final_reward", "By configuration.", look.in_order(found.reset_index(), "configuration"), _FINAL),),
    )


def _full_answers(rounds: pd.DataFrame, *, first: bool) -> pd.Series[float]:
    """Returns configuration -> mean share of full answers over the first or the last FINAL_ROUNDS rounds, and the
    seeds."""
    found = {}
    for name, rows in rounds.groupby("configuration", observed=True):
        curves = by_seed(rows, "full_answers")
        found[name] = [
            (run.dropna().head(FINAL_ROUNDS) if first else run.dropna().tail(FINAL_ROUNDS)).mean()
            for _, run in curves.items()
        ]
    return pd.Series({name: pd.Series(values).mean() for name, values in found.items()}, dtype="float64")


_THRESHOLDS = (
    Column("reward", "threshold", number(3)),
    CONFIGURATION,
    Column("seeds", "seeds", whole),
    Column("reached it", "reached", whole),
    Column("median round", "round", number(0)),
    Column("first", "first", number(0)),
    Column("last", "last", number(0)),
    Column("generated tokens per node", "tokens_per_node", whole),
    Column("trained tokens per node", "trained_per_node", whole),
    Column("seconds", "seconds", whole),
)
_DRAWDOWN = {"smoothed": "mean reward", "drawdown_share": "below its highest so far, as a share of it"}
"""Columns of drawdowns that are drawn, and their titles."""
_OSCILLATION = (
    CONFIGURATION,
    Column("seeds", "seeds", whole),
    Column("steep drops", "steep_drops", number(1)),
    Column("most in a run", "most_steep_drops", whole),
    Column("max drawdown", "max_drawdown", number(3)),
    Column("of the highest", "max_drawdown_share", percent),
    Column("worst run", "worst_drawdown_share", percent),
)
_FINAL = (
    CONFIGURATION,
    Column("seeds", "seeds", whole),
    Column("starting reward", "starting_reward", number(3)),
    Column("final reward", "final_reward", number(3)),
    Column("sd", "final_sd", number(3)),
    Column("full answers, first rounds", "full_answers_first", percent),
    Column("full answers, last rounds", "full_answers_last", percent),
)
