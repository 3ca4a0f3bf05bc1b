"""Progress of the runs of a study, counted from their metrics rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.measures import RUN
from swarm.plugins.study.record import RunRecord, StudyRecord

FINISHED = "finished"
MOST_NAMED = 8
"""Runs that are named in a sentence; the table has them all."""


def progress_table(record: StudyRecord, metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per planned run: the rounds that it has rows of, and how many rows are missing or too many in
    these."""
    runs = {str(name): rows.groupby("round").size() for name, rows in metrics.groupby("experiment")}
    found = [_run_row(run, runs, record) for run in record.runs]
    columns = [*RUN, "rounds", "planned", "rows_missing", "rows_beyond", "state"]
    return pd.DataFrame(found, columns=columns)


def _run_row(run: RunRecord, runs: Mapping[str, pd.Series[int]], record: StudyRecord) -> dict[str, Any]:
    rows = runs.get(run.experiment, pd.Series(dtype="int64"))
    done, beyond = len(rows), rows - record.nodes_of(run.configuration)
    return {
        "configuration": run.configuration,
        "seed": run.seed,
        "experiment": run.experiment,
        "rounds": done,
        "planned": record.rounds,
        "rows_missing": int(-beyond.clip(upper=0).sum()),
        "rows_beyond": int(beyond.clip(lower=0).sum()),
        "state": FINISHED if done >= record.rounds else "unfinished" if done else "not begun",
    }


def missing_text(progress: pd.DataFrame) -> str:
    """Returns in a sentence what an unfinished study lacks; empty for a whole one."""
    lacking = progress[progress["state"] != FINISHED]
    if lacking.empty:
        return ""
    named = [f"{row.configuration} seed {row.seed} ({row.rounds} of {row.planned})" for row in lacking.itertuples()]
    return (
        f"This study is not finished: {len(progress) - len(lacking)} of {len(progress)} runs are. Rounds done of the "
        f"others: {some_of(named)}. Comparisons, thresholds, final rewards, aha moments and held-out questions are of "
        "finished runs (of all, while none is finished); curves over rounds, tokens and time are of all runs."
    )


def some_of(named: list[str]) -> str:
    """Returns the first of many names."""
    return ", ".join(named[:MOST_NAMED]) + (f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else "")
