"""Held-out questions: pass@1 by window of rounds, and of an exam.

judged (one row per run, node, round and question) ─▶ pass_at_1    one row per run and window of rounds
exams (one row per run, node, moment and task) ─────▶ exam_means   one row per configuration and moment
"""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.curves import RUN, ratio
from swarm.wire import judge_messages

WINDOW_ROUNDS = 10
"""Rounds that are judged together."""


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
    found.insert(2, "given_answered", ratio(found["pass_at_1"], found["answered"]))
    return found.reset_index()


PASS_AT = tuple(f"pass_at_{k}" for k in judge_messages.PASS_AT)


def exam_means(exams: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per configuration and rounds trained, of rows of ExamRow: means over questions, with `nodes`, and
    `given_answered`, pass@1 of the answered ones; pass@k where all rows tell it."""
    measures = ["pass_at_1", "answered", "mean_reward", *told_pass_at(exams)]
    weighted = exams.assign(**{name: exams[name] * exams["n"] for name in measures})
    sums = weighted.groupby(["configuration", "rounds_done"], observed=True).agg(
        nodes=("node_id", "nunique"), n=("n", "sum"), **{name: (name, "sum") for name in measures}
    )
    means = sums.assign(**{name: sums[name] / sums["n"] for name in measures})
    return means.assign(given_answered=ratio(means["pass_at_1"], means["answered"])).reset_index()


def told_pass_at(exams: pd.DataFrame) -> list[str]:
    """Returns those of PASS_AT that all rows of an exam tell."""
    told = exams.reindex(columns=PASS_AT).apply(pd.to_numeric, errors="coerce").notna().all()
    return [name for name in PASS_AT if len(exams) and told[name]]
