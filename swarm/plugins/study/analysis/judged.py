"""Held-out pass@1 of configurations against their baselines, by window of rounds.

    judged (one row per run, node, round and question) ─▶ pass_at_1       one row per run and window of rounds
                                                              └▶ compare_judged  one row per configuration and window

The paper's section 6 compares round by round, with nodes as its samples. Here the seed is the unit: nodes of one swarm
learn from each other and are no independent samples.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from swarm.plugins.study.analysis.effect_size import hedges_g
from swarm.plugins.study.analysis.measures import RUN
from swarm.plugins.study.analysis.significance import welch
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord

WINDOW_ROUNDS = 10
"""Rounds that are judged together."""


class JudgedComparison(NamedTuple):
    """pass@1 of a configuration in a window of rounds, against its baseline in the same one.

    Fields are None where they are not defined: see swarm.plugins.study.analysis.significance.
    """

    configuration: str
    baseline: str
    round: int
    """First of the window."""
    n: int
    """Runs, each one value."""
    n_baseline: int
    mean: float
    """pass@1, mean over the runs."""
    baseline_mean: float
    t: float | None
    df: float | None
    p: float | None
    """p-value of Welch's test, for looking: as many tests as windows, and not adjusted."""
    hedges_g: float | None


def pass_at_1(judged: pd.DataFrame, window: int = WINDOW_ROUNDS) -> pd.DataFrame:
    """Returns one row per run and window.

    Columns:
        round: the window's first.
        pass_at_1: share of questions with the full reward.
        answered: share of questions with a closed `<answer>`: the format.
        given_answered: pass_at_1 / answered, the content; NaN where none is answered.
        reward: mean over the questions.
        questions: how many there were.
    """
    windows = judged.assign(
        round=judged["round"] // window * window, **judged[["full_answer", "answered"]].astype("float64")
    )
    found = windows.groupby([*RUN, "round"]).agg(
        pass_at_1=("full_answer", "mean"),
        answered=("answered", "mean"),
        reward=("reward", "mean"),
        questions=("question_id", "size"),
    )
    found.insert(2, "given_answered", found["pass_at_1"] / found["answered"].where(found["answered"] > 0))
    return found.reset_index()


def compare_judged(windows: pd.DataFrame, record: StudyRecord) -> list[JudgedComparison]:
    """Returns each configuration against its baseline, window by window; windows that one side has not reached are left
    out.

    Args:
        windows: from pass_at_1.
        record: the study.
    """
    rates = {str(name): _by_window(rows) for name, rows in windows.groupby("configuration")}
    return [
        _row(known, round_, rates[known.name][round_], rates[known.baseline][round_])
        for known in record.configurations
        if known.baseline != known.name and {known.name, known.baseline} <= rates.keys()
        for round_ in sorted(rates[known.name].keys() & rates[known.baseline].keys())
    ]


def _by_window(windows: pd.DataFrame) -> dict[int, list[float]]:
    """First round of a window -> one pass@1 per run."""
    return {int(str(round_)): rows["pass_at_1"].tolist() for round_, rows in windows.groupby("round")}


def _row(known: ConfigurationRecord, round_: int, a: list[float], b: list[float]) -> JudgedComparison:
    test = welch(a, b)
    return JudgedComparison(
        configuration=known.name,
        baseline=known.baseline,
        round=round_,
        n=len(a),
        n_baseline=len(b),
        mean=sum(a) / len(a),
        baseline_mean=sum(b) / len(b),
        t=test.t,
        df=test.df,
        p=test.p,
        hedges_g=hedges_g(a, b).value,
    )
