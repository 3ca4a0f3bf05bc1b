"""Two experiments, or two configurations of studies, side by side.

    name ─▶ side: configuration -> metrics ─pairs─▶ first rounds that all runs have ─▶ RunsComparison

A name is an experiment's, a study's, or `STUDY:CONFIGURATION`, such as `sapo:4/4`. Two studies are compared
configuration by configuration, those that both have.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from swarm.errors import ConfigError
from swarm.plugins.study.analysis.comparisons import Row, compare
from swarm.plugins.study.analysis.curves import RUN, median_or_later
from swarm.plugins.study.analysis.measures import (
    agent_average,
    oscillation,
    rounds_to_threshold,
    thresholds_of,
    totals,
)
from swarm.plugins.study.frames import get_study_metrics
from swarm.plugins.study.record import studies
from swarm.views.tables.frames import get_experiment_metrics

Side = dict[str, pd.DataFrame]
"""Configuration -> metrics; an experiment is a side of one."""


class RunsComparison(NamedTuple):
    """Says how b compares with a, over the first rounds that all their runs have."""

    a: str
    b: str
    rounds: int
    totals: pd.DataFrame
    """measure, a, b, difference (b - a), percent (of a; NaN where a is 0): means over runs."""
    thresholds: pd.DataFrame
    """threshold, a, b: median round of first reaching it, NaN where at least half of the runs never did."""
    cumulative: Row
    """What `compare` says of the cumulative reward, with a as the baseline."""
    groups: tuple[float, float] = (0.0, 0.0)
    """That a node asked for in a round to train on, its own and peers', of a and of b, on average."""


def compare_experiments(path: Path | str, a: str, b: str) -> list[RunsComparison]:
    """Compare what two names stand for, a being what b is measured by.

    Returns:
        One comparison, or for two studies one per configuration that both have.

    Raises:
        ExperimentError: there is neither a study nor an experiment of that name.
        ConfigError: they have no configuration in common, or no rows, or are the same.
    """
    left, right = load_side(Path(path), a), load_side(Path(path), b)
    if len(left) == len(right) == 1:
        return [compare_runs(a, b, *left.values(), *right.values())]
    shared = [name for name in left if name in right]
    if not shared:
        raise ConfigError(
            f"{a!r} and {b!r} share no configuration: {', '.join(left)} against {', '.join(right)}; "
            "name one of a study as STUDY:CONFIGURATION"
        )
    return [compare_runs(f"{a}:{name}", f"{b}:{name}", left[name], right[name]) for name in shared]


def load_side(path: Path, name: str) -> Side:
    """Returns the metrics that a name stands for, by configuration.

    Raises:
        ExperimentError: there is neither a study nor an experiment of that name.
        ConfigError: the study has no rows of that configuration, or the experiment none at all.
    """
    study, _, wanted = name.partition(":")
    if study not in studies(path):
        return _filled(name, {name: get_experiment_metrics(path, name).assign(seed=0, configuration=name)})
    rows = get_study_metrics(path, study)
    side = {str(known): own for known, own in rows.groupby("configuration", sort=False)}
    if wanted and wanted not in side:
        known = ", ".join(side) or "none"
        raise ConfigError(f"{name}: study {study!r} has no rows of configuration {wanted!r}; there: {known}")
    return _filled(name, {wanted: side[wanted]} if wanted else side)


def _filled(name: str, side: Side) -> Side:
    if any(len(metrics) for metrics in side.values()):
        return side
    raise ConfigError(f"{name}: not one metrics row yet; wait for its first round to end")


def compare_runs(a: str, b: str, left: pd.DataFrame, right: pd.DataFrame) -> RunsComparison:
    """Returns the comparison of two frames of metrics, each of the runs of one configuration.

    Raises:
        ConfigError: both have the same name.
    """
    if a == b:
        raise ConfigError(f"compare: expected two different names, got {a!r} twice")
    both = pd.concat([left.assign(configuration=a), right.assign(configuration=b)], ignore_index=True)
    rounds = int(both.groupby(RUN)["round"].max().min()) + 1
    both = both[both["round"] < rounds]
    sums, curves = totals(both), agent_average(both)
    sums = sums.merge(oscillation(curves), on=RUN)
    summed = {side: sums.loc[sums["configuration"] == side, "cumulative_reward"].tolist() for side in (a, b)}
    return RunsComparison(
        a=a,
        b=b,
        rounds=rounds,
        totals=_means(sums, a, b),
        thresholds=_thresholds(curves, sums, a, b),
        cumulative=compare(summed[b], summed[a]),
        groups=(_groups(left), _groups(right)),
    )


def _groups(metrics: pd.DataFrame) -> float:
    """0.0 where the rows do not tell them."""
    groups = (metrics["local_groups"] + metrics["external_wanted"]).mean()
    return 0.0 if pd.isna(groups) else float(groups)


def _means(sums: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    means = sums.drop(columns=["seed", "experiment"]).groupby("configuration").mean()
    table = pd.DataFrame({"a": means.loc[a], "b": means.loc[b]})
    table["difference"] = table["b"] - table["a"]
    table["percent"] = 100 * table["difference"] / table["a"].where(table["a"] != 0)
    return table.rename_axis("measure").reset_index()


def _thresholds(curves: pd.DataFrame, sums: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    reached = rounds_to_threshold(curves, thresholds_of(sums))
    medians = reached.groupby(["threshold", "configuration"])["round"].agg(median_or_later).unstack()
    return medians[[a, b]].set_axis(["a", "b"], axis=1).reset_index()
