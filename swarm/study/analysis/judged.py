"""Held-out pass@1 of configurations against their baselines, by window of rounds.

    judged (one row per run, node, round and question) ─▶ pass_at_1       one row per run and window of rounds
                                                        └▶ compare_judged  one row per configuration and window

The paper's section 6 compares round by round, with nodes as its samples: that is window = 1 and a study of one seed.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from swarm.study.analysis.effect_size import hedges_g
from swarm.study.analysis.measures import RUN
from swarm.study.analysis.significance import holm, welch
from swarm.study.record import ConfigurationRecord, StudyRecord

WINDOW_ROUNDS = 10
"""Rounds that are judged together."""


class JudgedComparison(NamedTuple):
    """pass@1 of a configuration in a window of rounds, against its baseline in the same one.

    Fields are None where they are not defined: see swarm.study.analysis.significance.
    """

    configuration: str
    baseline: str
    round: int
    """First of the window."""
    unit: str
    """What was tested: `seed`, each run one value, or, where both sides have a single run, `node`, each node one value.
    Nodes of one swarm learn from each other and are no independent samples: such a p-value is a description of these
    two runs, and says nothing about other seeds."""
    n: int
    n_baseline: int
    mean: float
    """pass@1, mean over the units."""
    baseline_mean: float
    t: float | None
    df: float | None
    p: float | None
    p_holm: float | None
    """Adjusted over the windows of this configuration."""
    hedges_g: float | None


def pass_at_1(judged: pd.DataFrame, window: int = WINDOW_ROUNDS) -> pd.DataFrame:
    """One row per run and window.

    Columns:
        round: the window's first.
        pass_at_1: share of questions with the full reward.
        answered: share of questions with a closed `<answer>`: the format.
        given_answered: pass_at_1 / answered, the content; NaN where none is answered.
        reward: mean over the questions.
        questions: how many there were.
    """
    return _pass_at_1(judged, RUN, window).reset_index()


def compare_judged(judged: pd.DataFrame, record: StudyRecord, window: int = WINDOW_ROUNDS) -> list[JudgedComparison]:
    """Welch's t-test of each configuration against its baseline, window by window, adjusted by Holm over the windows.

    Windows in which one side was not judged are left out.
    """
    there = set(judged["configuration"])
    return [
        row
        for known in record.configurations
        if known.baseline and known.baseline != known.name and {known.name, known.baseline} <= there
        for row in _compare(judged, known, window)
    ]


def _compare(judged: pd.DataFrame, known: ConfigurationRecord, window: int) -> list[JudgedComparison]:
    mine = judged[judged["configuration"] == known.name]
    other = judged[judged["configuration"] == known.baseline]
    unit = "node" if mine["seed"].nunique() == other["seed"].nunique() == 1 else "seed"
    a, b = _samples(mine, unit, window), _samples(other, unit, window)
    rows = [_row(known, round_, unit, a[round_], b[round_]) for round_ in sorted(a.keys() & b.keys())]
    adjusted = holm([row.p for row in rows])
    return [row._replace(p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _row(known: ConfigurationRecord, round_: int, unit: str, a: list[float], b: list[float]) -> JudgedComparison:
    test = welch(a, b)
    return JudgedComparison(
        configuration=known.name,
        baseline=known.baseline,
        round=round_,
        unit=unit,
        n=len(a),
        n_baseline=len(b),
        mean=sum(a) / len(a),
        baseline_mean=sum(b) / len(b),
        t=test.t,
        df=test.df,
        p=test.p,
        p_holm=None,
        hedges_g=hedges_g(a, b).value,
    )


def _samples(judged: pd.DataFrame, unit: str, window: int) -> dict[int, list[float]]:
    """First round of a window -> one pass@1 per seed, or per node."""
    rates = _pass_at_1(judged, ["node_id" if unit == "node" else "seed"], window)["pass_at_1"]
    return {int(str(round_)): rates_there.tolist() for round_, rates_there in rates.groupby(level="round")}


def _pass_at_1(judged: pd.DataFrame, key: list[str], window: int) -> pd.DataFrame:
    windows = judged.assign(
        round=judged["round"] // window * window, **judged[["full_answer", "answered"]].astype("float64")
    )
    found = windows.groupby([*key, "round"]).agg(
        pass_at_1=("full_answer", "mean"),
        answered=("answered", "mean"),
        reward=("reward", "mean"),
        questions=("question_id", "size"),
    )
    found.insert(2, "given_answered", found["pass_at_1"] / found["answered"].where(found["answered"] > 0))
    return found
