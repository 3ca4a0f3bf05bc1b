"""Numbers of a study's tables, computed anew from its per-seed table with nothing of the report's own code."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev

from scipy import stats

Number = tuple[str, float, float]
"""What it is, what the table says, what comes of the runs."""


def numbers(tables: Path) -> Iterator[Number]:
    """Of comparison.csv, final_reward.csv and price.csv, from runs.csv; finished runs alone."""
    runs = [row for row in _rows(tables / "runs.csv") if row["state"] == "finished"]
    for row in _rows(tables / "comparison.csv"):
        own, other = (_column(runs, row[side], "cumulative_reward") for side in ("configuration", "baseline"))
        yield from _described(row, own)
        if len(other) >= 3 and row["p"]:
            yield from _compared(row, own, other)
    for name, column, source in (
        ("final_reward.csv", "final_reward", "final_reward"),
        ("final_reward.csv", "starting_reward", "starting_reward"),
        ("price.csv", "wall_seconds", "wall_seconds"),
        ("price.csv", "tokens_generated", "tokens_generated"),
    ):
        for row in _rows(tables / name):
            found = fmean(_column(runs, row["configuration"], source))
            yield f"{row['configuration']}: {column}", float(row[column]), found


def _described(row: dict[str, str], own: list[float]) -> Iterator[Number]:
    what = row["configuration"]
    yield f"{what}: mean", float(row["mean"]), fmean(own)
    if row["low"]:
        yield f"{what}: sd", float(row["sd"]), stdev(own)
        interval = stats.ttest_1samp(own, 0.0).confidence_interval(0.95)
        yield f"{what}: low", float(row["low"]), interval.low
        yield f"{what}: high", float(row["high"]), interval.high


def _compared(row: dict[str, str], own: list[float], other: list[float]) -> Iterator[Number]:
    what, test = f"{row['configuration']} against {row['baseline']}", stats.ttest_ind(own, other, equal_var=False)
    yield f"{what}: improvement", float(row["improvement"]), 100 * (fmean(own) / fmean(other) - 1)
    yield f"{what}: difference", float(row["difference"]), fmean(own) - fmean(other)
    yield f"{what}: p", float(row["p"]), float(test.pvalue)
    yield f"{what}: t", float(row["t"]), float(test.statistic)


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _column(runs: list[dict[str, str]], configuration: str, column: str) -> list[float]:
    return [float(row[column]) for row in runs if row["configuration"] == configuration]
