"""The table of a study: each configuration against its baseline.

    totals (one row per run) ─finished runs─▶ one sample per configuration ─▶ Comparison, one per configuration
                                                        ├ by group ─▶ Variance, one per group
                                                        └ format x content ─▶ Factors, one per compared configuration

The unit is the seed: a run gives one number, however many nodes and rounds it has. What was declared beforehand is
tested in declared.py; all here is for looking.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import pandas as pd

from swarm.plugins.study.analysis.effect_size import hedges_g, improvement, mean_effect
from swarm.plugins.study.analysis.significance import Anova, Sample, anova, holm, welch
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord


class Comparison(NamedTuple):
    """A configuration, and what it is to its baseline; `pandas.DataFrame(list of these)` is the table.

    Fields from `improvement` on are None for a configuration without a baseline, or whose baseline has no run; the
    tests and intervals also with fewer than three runs on either side, or without any spread.
    """

    configuration: str
    group: str
    baseline: str
    n: int
    """Finished runs, one per seed."""
    mean: float
    sd: float | None
    """With n - 1; None for a single run."""
    low: float | None
    """95 % interval of the mean, by Student's t over runs."""
    high: float | None
    improvement: float | None = None
    """Percent by which the mean lies above the baseline's."""
    improvement_low: float | None = None
    """95 % interval of the ratio of the two means, by its logarithm and Welch's degrees of freedom."""
    improvement_high: float | None = None
    difference: float | None = None
    """mean - the baseline's mean."""
    difference_low: float | None = None
    """95 % interval of Welch's t."""
    difference_high: float | None = None
    t: float | None = None
    """Welch's t-test, two-sided."""
    df: float | None = None
    p: float | None = None
    p_holm: float | None = None
    """Adjusted over all of compare_with_baseline's, which are the one family of a study that has declared nothing; None
    where the study has declared some comparisons, since those are its family then."""
    hedges_g: float | None = None
    g_low: float | None = None
    """95 % interval from the noncentral t distribution."""
    g_high: float | None = None


class Variance(NamedTuple):
    """The analysis of variance over the configurations of one group."""

    group: str
    configurations: tuple[str, ...]
    anova: Anova


def finished(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Returns the runs that have all their rounds: the sum of a shorter one says less, and nothing about its
    configuration."""
    return totals[totals["rounds"] >= record.rounds]


def compare_with_baseline(
    totals: pd.DataFrame, record: StudyRecord, column: str = "cumulative_reward"
) -> list[Comparison]:
    """Returns one Comparison per configuration with finished runs, in the record's order.

    Args:
        totals: swarm.plugins.study.analysis.measures.totals of the study's metrics.
        record: the study.
        column: which of the totals is compared.
    """
    samples = samples_by_configuration(totals, record, column)
    compared = [
        compare_samples(known, by_seed, samples.get(known.baseline) if known.baseline != known.name else None)
        for known, by_seed in _present(samples, record)
    ]
    if not record.tests:
        return [row._replace(t=None, df=None, p=None) for row in compared]
    if record.declared:
        return compared
    adjusted = holm([row.p for row in compared])
    return [row._replace(p_holm=p) for row, p in zip(compared, adjusted, strict=True)]


def variance_by_group(totals: pd.DataFrame, record: StudyRecord, column: str = "cumulative_reward") -> list[Variance]:
    """One-way analysis of variance over the configurations of each group, finished runs alone."""
    groups: dict[str, dict[str, Sample]] = defaultdict(dict)
    samples = samples_by_configuration(totals, record, column)
    for known, by_seed in _present(samples, record):
        groups[known.group][known.name] = by_seed.tolist()
    return [Variance(group, tuple(found), anova(list(found.values()))) for group, found in groups.items()]


def samples_by_configuration(totals: pd.DataFrame, record: StudyRecord, column: str) -> dict[str, pd.Series[float]]:
    """Returns configuration -> its finished runs' values, by seed; without those that have none."""
    runs = finished(totals, record).dropna(subset=[column])
    return {
        str(name): rows.set_index("seed")[column].astype("float64").sort_index()
        for name, rows in runs.groupby("configuration", sort=False)
    }


def _present(
    samples: dict[str, pd.Series[float]], record: StudyRecord
) -> list[tuple[ConfigurationRecord, pd.Series[float]]]:
    return [(known, samples[known.name]) for known in record.configurations if known.name in samples]


def compare_samples(
    known: ConfigurationRecord, by_seed: pd.Series[float], baseline: pd.Series[float] | None
) -> Comparison:
    """Returns one configuration's values by seed against its baseline's; p_holm is left to who knows the family."""
    alone = _describe(known, by_seed)
    return alone if baseline is None else alone._replace(**_against(by_seed, baseline))


def _describe(known: ConfigurationRecord, by_seed: pd.Series[float]) -> Comparison:
    mean = mean_effect(by_seed.tolist())
    return Comparison(
        configuration=known.name,
        group=known.group,
        baseline=known.baseline,
        n=len(by_seed),
        mean=float(by_seed.mean()),
        sd=float(by_seed.std()) if len(by_seed) > 1 else None,
        low=mean.low,
        high=mean.high,
    )


def _against(by_seed: pd.Series[float], baseline: pd.Series[float]) -> dict[str, Any]:
    a, b = by_seed.tolist(), baseline.tolist()
    test, gain, g = welch(a, b), improvement(a, b), hedges_g(a, b)
    return {
        "improvement": gain.value,
        "improvement_low": gain.low,
        "improvement_high": gain.high,
        "difference": float(by_seed.mean() - baseline.mean()),
        "difference_low": test.low,
        "difference_high": test.high,
        "t": test.t,
        "df": test.df,
        "p": test.p,
        "hedges_g": g.value,
        "g_low": g.low,
        "g_high": g.high,
    }


class Factors(NamedTuple):
    """Says how a configuration's cumulative reward compares with its baseline's, and splits that into two factors.

    reward is about format x content: exactly so in every run, and in the ratios of means as far as the runs of a
    configuration are alike. Each is a ratio of means over runs, with its 95 % interval (effect_size.improvement).
    """

    configuration: str
    baseline: str
    reward: float | None
    """Ratio of the cumulative rewards."""
    reward_low: float | None
    reward_high: float | None
    format: float | None
    """Ratio of cumulative_tagged: how many more completions had a closed answer."""
    format_low: float | None
    format_high: float | None
    content: float | None
    """Ratio of reward_given_tagged: how much more such a completion earned."""
    content_low: float | None
    content_high: float | None


def format_and_content(totals: pd.DataFrame, record: StudyRecord) -> list[Factors]:
    """Returns one Factors per configuration whose baseline has finished runs, too, in the record's order."""
    measured = [
        samples_by_configuration(totals, record, column)
        for column in ("cumulative_reward", "cumulative_tagged", "reward_given_tagged")
    ]
    return [
        Factors(known.name, known.baseline, *(value for samples in measured for value in _ratio(samples, known)))
        for known, _ in _present(measured[0], record)
        if known.baseline != known.name and known.baseline in measured[0]
    ]


def _ratio(samples: dict[str, pd.Series[float]], known: ConfigurationRecord) -> list[float | None]:
    if not {known.name, known.baseline} <= samples.keys():
        return [None] * 3
    found = improvement(samples[known.name].tolist(), samples[known.baseline].tolist())
    return [None if percent is None else 1 + percent / 100 for percent in found]


def effect_by_start(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Says how the effect of sharing depends on where it begins: one row per group and configuration that has a
    baseline.

    Columns:
        group, configuration, baseline
        starting_reward: mean of round 0, before any update, over all finished runs of the group.
        n: finished runs.
        improvement, improvement_low, improvement_high: percent over the group's baseline, with its 95 % interval.
        hedges_g
    """
    groups = {known.name: known.group for known in record.configurations}
    runs = finished(totals, record)
    starts = runs["starting_reward"].groupby(runs["configuration"].map(groups)).mean()
    labels = ["group", "configuration", "baseline", "n"]
    numbers = ["improvement", "improvement_low", "improvement_high", "hedges_g"]
    compared = pd.DataFrame(compare_with_baseline(totals, record), columns=Comparison._fields)
    table = compared.loc[compared["difference"].notna(), labels + numbers].astype(dict.fromkeys(numbers, "float64"))
    table.insert(3, "starting_reward", table["group"].map(starts))
    return table.sort_values("starting_reward", kind="stable", ignore_index=True)
