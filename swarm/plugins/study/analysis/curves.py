"""Curves over rounds, from the rows of a study's nodes.

    rows of a configuration, one per run and round ─▶ by_seed ─▶ mean_band

A moving average looks back only, over `window` rounds, or over those that there are at the start.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from swarm.views.tables.columns import RUN as RUN_COLUMNS

RUN = list(RUN_COLUMNS)
"""The columns that name a run, first in every frame of rows or runs: configuration, seed, experiment."""
FINAL_ROUNDS = 10
"""Rounds at the end of a run over which what it came to is measured."""
LONGEST_WINDOW = 100
"""Rounds of the paper's moving average; a shorter run takes a tenth of its rounds. For figures alone:
thresholds and drops are measured on that of measures.WINDOW."""


def window_for(rounds: int) -> int:
    """Returns the window of the moving average for runs of so many rounds."""
    return min(LONGEST_WINDOW, max(1, rounds // 10))


def smooth(curves: pd.DataFrame, window: int) -> pd.DataFrame:
    """Moving average down each column."""
    return curves.rolling(window, min_periods=1).mean()


def by_seed(configuration: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns a column of one configuration: its rounds down, its seeds across."""
    return configuration.pivot_table(index="round", columns="seed", values=column, aggfunc="mean").sort_index()


def mean_band(curves: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % interval of the mean over the S columns (at least 2), at each of the R rows by itself, by Student's t."""
    values_R_S = curves.to_numpy(dtype=np.float64)
    seeds = values_R_S.shape[1]
    mean_R = values_R_S.mean(axis=1)
    half_R = stats.t.ppf(0.975, seeds - 1) * values_R_S.std(axis=1, ddof=1) / math.sqrt(seeds)
    return mean_R - half_R, mean_R + half_R


def by_agent(run: pd.DataFrame, column: str = "my_reward") -> pd.DataFrame:
    """Returns one run: its rounds down, its agents across."""
    return run.pivot_table(index="round", columns="node_id", values=column, aggfunc="last", observed=True).sort_index()


def first_seeds(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns, for each configuration, the rows of its lowest seed that has any."""
    first = metrics.groupby("configuration", observed=True)["seed"].transform("min")
    return metrics[metrics["seed"] == first]


def median_or_later(costs: pd.Series[float]) -> float:
    """Median over the runs of one of these costs; NaN if at least half of them never got there.

    Those that never did (NaN) took longer than they lasted, and so lie above all others.
    """
    median = float(costs.fillna(math.inf).median())
    return median if math.isfinite(median) else math.nan


def ratio(part: pd.Series[float], whole: pd.Series[float]) -> pd.Series[float]:
    """Returns part / whole; NaN where there is nothing of the whole."""
    return part / whole.where(whole > 0)
