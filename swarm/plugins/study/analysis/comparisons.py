"""Comparisons of configurations: with their baselines, and as declared beforehand.

    totals (one row per run) ─finished runs─▶ one sample per configuration ─▶ comparison_table: each beside its baseline
                                                     ├ as declared ─────────▶ declared_table, one row per declaration
                                                     └ format x content ────▶ factors_table, one row per configuration

The unit is the seed: a run gives one number, however many nodes and rounds it has. What was declared beforehand is the
one family of a study; everything else is for looking.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from swarm.plugins.study.analysis.effect_size import Effect, hedges_g, improvement, mean_effect
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, Anova, Sample, anova, holm, paired, welch, zero
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, StudyRecord

SeedValues = dict[int, float]
"""Seed -> what its run came to, by seed."""
Row = dict[str, Any]
"""Column -> value; None, or no such column: it is not defined."""
TOO_FEW = f"n < {FEWEST_SEEDS}"
"""Why there is no p-value."""
NO_SPREAD = "no spread"
"""Likewise."""
EXPLORATORY = "exploratory"
"""Why there is no p-value, where none is wanted."""
ONES = ("configuration", "group", "baseline", "measure", "test", "hypothesis", "untested", "n", "n_baseline")
"""Columns of a table of comparisons that are text or counts; all others are numbers that may be missing."""
TESTED = (
    *("improvement", "improvement_low", "improvement_high", "difference", "difference_low", "difference_high"),
    *("t", "df", "p", "p_holm"),
)


def compare(a: Sample, b: Sample, test: str = "welch") -> Row:
    """Holds `a` against `b`, the baseline's.

    Args:
        a: one value per run.
        b: likewise; of a paired test b[i] has the seed of a[i]; unused where the test is `zero`.
        test: one of swarm.plugins.study.record.TESTS.

    Columns:
        n, n_baseline, mean, baseline_mean: runs of either side, and their means.
        improvement: percent by which the mean lies above the baseline's; its 95 % interval is that of the ratio of the
            two means, by its logarithm, paired where the test is.
        difference: of the two means, or the mean itself where it is tested against 0; the interval is of the test's t.
        t, df, p: two-sided.
        hedges_g, g_low, g_high: with its 95 % interval from the noncentral t distribution.
        untested: why there is no p-value; empty where there is one.
    """
    alone, in_pairs = test == "zero", test == "paired"
    tested = zero(a) if alone else (paired if in_pairs else welch)(a, b)
    gain, g = (Effect(), Effect()) if alone else (improvement(a, b, paired=in_pairs), hedges_g(a, b))
    to = 0.0 if alone else _mean(b)
    mean = _mean(a)
    why_not = TOO_FEW if len(a) < FEWEST_SEEDS or (len(b) < FEWEST_SEEDS and not alone) else NO_SPREAD
    return {
        "n": len(a),
        "n_baseline": None if alone else len(b),
        "mean": mean,
        "baseline_mean": None if alone else to,
        **_estimate("improvement", gain),
        "difference": None if mean is None or to is None else mean - to,
        "difference_low": tested.low,
        "difference_high": tested.high,
        "t": tested.t,
        "df": tested.df,
        "p": tested.p,
        "hedges_g": g.value,
        "g_low": g.low,
        "g_high": g.high,
        "untested": why_not if tested.p is None else "",
    }


def _mean(sample: Sample) -> float | None:
    return sum(sample) / len(sample) if len(sample) else None


def _estimate(name: str, found: Effect) -> Row:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def finished(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Returns the runs that have all their rounds: the sum of a shorter one says less, and nothing about its
    configuration."""
    return totals[totals["rounds"] >= record.rounds]


def samples_by_configuration(totals: pd.DataFrame, record: StudyRecord, column: str) -> dict[str, SeedValues]:
    """Returns configuration -> its finished runs' values, by seed; without those that have none."""
    runs = finished(totals, record)[["configuration", "seed", column]].dropna(subset=[column])
    found: dict[str, SeedValues] = defaultdict(dict)
    for name, seed, value in sorted(runs.itertuples(index=False, name=None), key=itemgetter(1)):
        found[str(name)][seed] = float(value)
    return found


def comparison_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Holds each configuration with finished runs against its baseline, in the record's order.

    Args:
        totals: swarm.plugins.study.analysis.measures.totals of the study's metrics.
        record: the study.

    Columns:
        sd: with n - 1; low, high: 95 % interval of the mean, by Student's t over runs.
        p_holm: over all configurations of a study that has declared nothing.
        others: as compare's; missing where there is no baseline, or it has no run.
    """
    samples = samples_by_configuration(totals, record, "cumulative_reward")
    rows = [_beside_baseline(known, samples) for known in record.configurations if known.name in samples]
    if not record.tests:
        rows = [row | {"t": None, "df": None, "p": None, "untested": EXPLORATORY} for row in rows]
    first = ["configuration", "group", "baseline", "n", "mean", "sd", "low", "high"]
    rows = rows if record.declared or not record.tests else _one_family(rows)
    return as_table(rows, [*first, *TESTED, "hedges_g", "g_low", "g_high", "untested"])


def _beside_baseline(known: ConfigurationRecord, samples: dict[str, SeedValues]) -> Row:
    own, baseline = ([*samples.get(name, {}).values()] for name in (known.name, known.baseline))
    interval = mean_effect(own)
    named = {"configuration": known.name, "group": known.group, "baseline": known.baseline}
    spread = float(np.std(own, ddof=1)) if len(own) > 1 else None
    row = named | {"sd": spread, "low": interval.low, "high": interval.high}
    if not known.baseline:
        return row | {"n": len(own), "mean": _mean(own), "untested": "baseline"}
    return row | compare(own, baseline)


def _one_family(rows: Sequence[Row]) -> list[Row]:
    adjusted = holm([row.get("p") for row in rows])
    return [row | {"p_holm": p} for row, p in zip(rows, adjusted, strict=True)]


def declared_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Tests what was declared, in the record's order: the one family of its page.

    Args:
        totals: swarm.plugins.study.analysis.measures.totals of the study's metrics.
        record: the study.

    Columns:
        configuration, baseline, measure, test, hypothesis: as declared.
        p_holm: adjusted over all of them that could be tested.
        others: as compare's.
    """
    rows = _one_family([_as_declared(totals, record, known) for known in record.declared])
    first = ["configuration", "baseline", "measure", "test", "hypothesis", "n", "n_baseline", "mean", "baseline_mean"]
    return as_table(rows, [*first, *TESTED, "untested"])


def _as_declared(totals: pd.DataFrame, record: StudyRecord, known: DeclaredComparison) -> Row:
    samples = samples_by_configuration(totals, record, known.measure)
    a, b = samples.get(known.configuration, {}), samples.get(known.baseline, {})
    if known.test == "paired":
        shared = [seed for seed in a if seed in b]
        a, b = ({seed: side[seed] for seed in shared} for side in (a, b))
    return msgspec.structs.asdict(known) | compare([*a.values()], [*b.values()], known.test)


def as_table(rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """Returns these columns of some rows as a frame: text and counts as they are, all others as numbers."""
    table = pd.DataFrame(rows, columns=[*columns])
    return table.astype({name: "float64" for name in columns if name not in ONES})


def variance_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Tests whether the configurations of each group have one mean cumulative reward, over finished runs: one row per
    group.

    Columns:
        group, configurations
        f, df_between, df_within, p, welch_f, welch_df_within, welch_p: as significance.Anova.
    """
    groups: dict[str, dict[str, Sample]] = defaultdict(dict)
    samples = samples_by_configuration(totals, record, "cumulative_reward")
    for known in record.configurations:
        if known.name in samples:
            groups[known.group][known.name] = [*samples[known.name].values()]
    rows = [
        {"group": group, "configurations": ", ".join(found)} | anova(list(found.values()))._asdict()
        for group, found in groups.items()
    ]
    return pd.DataFrame(rows, columns=["group", "configurations", *Anova._fields]).dropna(subset=["p"])


FACTORS = {"reward": "cumulative_reward", "format": "cumulative_tagged", "content": "reward_given_tagged"}
"""The reward and its two factors -> their measure: completions with a closed answer, and what such a one earned."""


def factors_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Says how cumulative rewards compare with the baseline's, and splits that into two factors: one row per
    configuration whose baseline has finished runs, too, in the record's order.

    The reward is about format x content: exactly so in every run, and in the ratios of means as far as the runs of a
    configuration are alike.

    Columns:
        each of FACTORS: the ratio of its means over runs, with its 95 % interval (effect_size.improvement) as `_low`
            and `_high`.
    """
    measured = {part: samples_by_configuration(totals, record, column) for part, column in FACTORS.items()}
    rows = [
        {"configuration": known.name, "baseline": known.baseline}
        | {name: value for part, samples in measured.items() for name, value in _ratio(part, samples, known).items()}
        for known in record.configurations
        if {known.name, known.baseline} <= measured["reward"].keys()
    ]
    ends = [f"{part}{end}" for part in FACTORS for end in ("", "_low", "_high")]
    return as_table(rows, ["configuration", "baseline", *ends])


def _ratio(part: str, samples: dict[str, SeedValues], known: ConfigurationRecord) -> Row:
    own, other = ([*samples.get(name, {}).values()] for name in (known.name, known.baseline))
    return _estimate(part, Effect(*(None if gain is None else 1 + gain / 100 for gain in improvement(own, other))))


def effect_by_start(totals: pd.DataFrame, record: StudyRecord, compared: pd.DataFrame) -> pd.DataFrame:
    """Says how the effect of sharing depends on where it begins: one row per group and configuration that has a
    baseline.

    Args:
        totals: one row per run.
        record: the study.
        compared: their comparison_table.

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
    numbers = ["improvement", "improvement_low", "improvement_high", "hedges_g"]
    table = compared.dropna(subset=["difference"])[["group", "configuration", "baseline", "n", *numbers]]
    table.insert(3, "starting_reward", table["group"].map(starts))
    return table.sort_values("starting_reward", kind="stable", ignore_index=True)
