"""Sections on held-out questions: what the judge asked during the rounds, and the exam before and after."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.ticker import MaxNLocator

from swarm.plugins.study.analysis.curves import common_rounds
from swarm.plugins.study.analysis.judged import WINDOW_ROUNDS, JudgedComparison, compare_judged
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FigureStyle, draw_mean, legend_below, new_figure
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    SEED,
    TOO_FEW,
    Column,
    Picture,
    Section,
    Table,
    number,
    p_value,
    percent,
    whole,
)
from swarm.plugins.study.report.sections_headline import EXPLORATORY


def judge_section(evidence: Evidence) -> Section | None:
    """Held-out pass@1 by window of rounds, if a judge asked."""
    windows, look = evidence.held_out, evidence.look
    if windows.empty:
        return None
    compared = comparison_by_window(windows, evidence.record)
    parts: tuple[Table | Picture, ...] = (
        Picture("held_out", f"Held-out pass@1 by window of {WINDOW_ROUNDS} rounds.", held_out_curves(windows, look)),
        Table("held_out_by_window", "By run and window.", windows, _WINDOWS),
    )
    if len(compared):
        table = Table("held_out_comparison", "Against the baseline, by window.", compared, _COMPARED)
        parts = (parts[0], table, parts[1])
    return Section(
        "Held-out questions",
        (
            "Each round a judge asked every node questions that are in no node's training, answered alone and once. "
            f"pass@1 is the share of them with the full reward, over the nodes and {WINDOW_ROUNDS} rounds; the line is "
            f"the mean over seeds, the band its 95 % interval from {FEWEST_SEEDS} seeds on. "
            "It is the share of questions that are answered, with a closed <answer>, times the pass@1 of these.",
            "p is that of Welch's test between the seeds of a configuration and of its baseline, window by window and "
            f"not adjusted: one of twenty windows falls below 0.05 by chance alone. With fewer than {FEWEST_SEEDS} "
            "seeds there is none: nodes of one swarm learn from each other, and are no independent samples.",
        ),
        parts,
    )


def comparison_by_window(windows: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """compare_judged as a frame, with `untested`: why there is no p-value."""
    compared = pd.DataFrame(compare_judged(windows, record), columns=JudgedComparison._fields)
    compared = compared.astype(dict.fromkeys(("t", "df", "p", "hedges_g"), "float64"))
    too_few = compared[["n", "n_baseline"]].min(axis=1) < FEWEST_SEEDS
    compared = compared.assign(untested=too_few.map({True: TOO_FEW, False: ""}))
    if record.tests:
        return compared
    return compared.assign(t=math.nan, df=math.nan, p=math.nan, untested=EXPLORATORY)


def held_out_curves(windows: pd.DataFrame, look: FigureStyle) -> Any:
    """pass@1 over the rounds, one line per configuration."""
    figure, (axis,) = new_figure(3.0)
    for name, rows in look.split(windows):
        runs = common_rounds(rows.pivot_table(index="round", columns="seed", values="pass_at_1").sort_index())
        draw_mean(axis, look, name, runs, marker=".")
    axis.set(xlabel=f"first round of the window of {WINDOW_ROUNDS}", ylabel="held-out pass@1")
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, 4)
    return figure


def exam_section(evidence: Evidence) -> Section | None:
    """Returns the frozen exam, if there was one."""
    exams = evidence.exams
    if exams.empty:
        return None
    means = evidence.look.in_order(exam_means(exams), "configuration", "rounds_done")
    by_task = exams.assign(given_answered=given_answered(exams))
    return Section(
        "Exam before and after",
        (
            "One fixed set of held-out questions, the same for every node and every moment. pass@1 is the share of "
            "questions with the full reward, weighted by the number of questions of each task; 0 rounds is before "
            "training. Answered: of completions, those with a closed <answer>; given answered: pass@1 of these alone.",
        ),
        (
            Table("exam", "Over all nodes and tasks, by configuration and rounds trained.", means, _EXAM),
            Table("exam_by_task", "By node and task.", by_task, _EXAM_BY_TASK),
        ),
    )


def exam_means(exams: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per configuration and rounds trained."""
    measures = ["pass_at_1", "answered", "mean_reward"]
    weighted = exams.assign(**{name: exams[name] * exams["n"] for name in measures})
    sums = weighted.groupby(["configuration", "rounds_done"], observed=True).agg(
        nodes=("node_id", "nunique"), n=("n", "sum"), **{name: (name, "sum") for name in measures}
    )
    means = sums.assign(**{name: sums[name] / sums["n"] for name in measures})
    return means.assign(given_answered=given_answered(means)).reset_index()


def given_answered(rows: pd.DataFrame) -> pd.Series[float]:
    """pass@1 of what is answered; NaN where nothing is."""
    return rows["pass_at_1"] / rows["answered"].where(rows["answered"] > 0)


_WINDOWS = (
    CONFIGURATION,
    SEED,
    Column("from round", "round", whole),
    Column("questions", "questions", whole),
    Column("pass@1", "pass_at_1", percent),
    Column("answered", "answered", percent),
    Column("given answered", "given_answered", percent),
    Column("mean reward", "reward", number(3)),
)
_COMPARED = (
    CONFIGURATION,
    Column("baseline", "baseline", numeric=False),
    Column("from round", "round", whole),
    Column("n", "n", whole),
    Column("n, baseline", "n_baseline", whole),
    Column("pass@1", "mean", percent),
    Column("baseline's", "baseline_mean", percent),
    Column("t", "t", number(2)),
    Column("df", "df", number(1)),
    Column("p", "p", p_value, instead="untested"),
    Column("Hedges' g", "hedges_g", number(2)),
)
_EXAM = (
    CONFIGURATION,
    Column("rounds trained", "rounds_done", whole),
    Column("nodes", "nodes", whole),
    Column("questions", "n", whole),
    Column("pass@1", "pass_at_1", percent),
    Column("answered", "answered", percent),
    Column("given answered", "given_answered", percent),
    Column("mean reward", "mean_reward", number(3)),
)
_EXAM_BY_TASK = (
    CONFIGURATION,
    SEED,
    Column("node", "node_id", numeric=False),
    Column("model", "model", numeric=False),
    Column("rounds trained", "rounds_done", whole),
    Column("task", "task", numeric=False),
    Column("questions", "n", whole),
    Column("pass@1", "pass_at_1", percent),
    Column("answered", "answered", percent),
    Column("given answered", "given_answered", percent),
    Column("mean reward", "mean_reward", number(3)),
)
