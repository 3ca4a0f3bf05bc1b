"""Comparisons of configurations: with their baselines, and as declared beforehand.

    totals (one row per run) ─finished runs─▶ one sample per configuration ─▶ Comparison, one per configuration
                                                     ├ as declared ─────────▶ Comparison, one per declaration, p_holm
                                                     └ format x content ────▶ factors, one row per configuration

The unit is the seed: a run gives one number, however many nodes and rounds it has. What was declared beforehand is the
one family of a study; everything else is for looking.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swarm.plugins.study.analysis.effect_size import Effect, hedges_g, improvement, mean_effect
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, Anova, Sample, anova, holm, paired, welch, zero
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, StudyRecord

SeedValues = dict[int, float]
"""Seed -> what its run came to, by seed."""
TOO_FEW = f"n < {FEWEST_SEEDS}"
"""Why there is no p-value."""
NO_SPREAD = "no spread"
"""Likewise."""
EXPLORATORY = "exploratory"
"""Why there is no p-value, where none is wanted."""
ONES = ("configuration", "group", "baseline", "measure", "test", "hypothesis", "untested", "n", "n_baseline")
"""Columns of a table of comparisons that are text or counts; all others are numbers that may be missing."""


class Comparison(NamedTuple):
    """A configuration, and what it is to its baseline.

    Fields from `baseline_mean` on are None where there is no baseline, or it has no run; the tests and intervals also
    where swarm.plugins.study.analysis.significance tests nothing.
    """

    configuration: str
    baseline: str
    n: int
    """Runs, one per seed; of a paired test those whose seed the other side has, too."""
    mean: float | None
    """None without a run."""
    group: str = ""
    sd: float | None = None
    """With n - 1; None for a single run."""
    low: float | None = None
    """95 % interval of the mean, by Student's t over runs."""
    high: float | None = None
    n_baseline: int | None = None
    baseline_mean: float | None = None
    improvement: float | None = None
    """Percent by which the mean lies above the baseline's."""
    improvement_low: float | None = None
    """95 % interval of the ratio of the two means, by its logarithm; paired where the test is."""
    improvement_high: float | None = None
    difference: float | None = None
    """mean - the baseline's mean; the mean itself where it is tested against 0."""
    difference_low: float | None = None
    """95 % interval of the test's own t."""
    difference_high: float | None = None
    t: float | None = None
    """Two-sided."""
    df: float | None = None
    p: float | None = None
    p_holm: float | None = None
    """Adjusted over all that the study declared and that could be tested; over all configurations of one that has
    declared nothing; None for what is no member of that family."""
    hedges_g: float | None = None
    g_low: float | None = None
    """95 % interval from the noncentral t distribution."""
    g_high: float | None = None
    measure: str = "cumulative_reward"
    """Column of the totals."""
    test: str = "welch"
    """One of swarm.plugins.study.record.TESTS."""
    hypothesis: str = ""

    @property
    def untested(self) -> str:
        """Returns why there is no p-value; empty where there is one."""
        if self.p is not None:
            return ""
        fewest = min(self.n, self.n if self.n_baseline is None else self.n_baseline)
        return TOO_FEW if fewest < FEWEST_SEEDS else NO_SPREAD


def compare(a: Sample, b: Sample, test: str = "welch") -> dict[str, Any]:
    """Returns the fields of a Comparison that hold `a` against `b`, the baseline's.

    Args:
        a: one value per run.
        b: likewise; of a paired test b[i] has the seed of a[i]; unused where the test is `zero`.
        test: one of swarm.plugins.study.record.TESTS.
    """
    alone, in_pairs = test == "zero", test == "paired"
    tested = zero(a) if alone else (paired if in_pairs else welch)(a, b)
    gain, g = (Effect(), Effect()) if alone else (improvement(a, b, paired=in_pairs), hedges_g(a, b))
    to = 0.0 if alone else _mean(b)
    mean = _mean(a)
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
    }


def _mean(sample: Sample) -> float | None:
    return sum(sample) / len(sample) if len(sample) else None


def _estimate(name: str, found: Effect) -> dict[str, float | None]:
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


def compare_with_baseline(totals: pd.DataFrame, record: StudyRecord) -> list[Comparison]:
    """Returns one Comparison per configuration with finished runs, in the record's order.

    Args:
        totals: swarm.plugins.study.analysis.measures.totals of the study's metrics.
        record: the study.
    """
    samples = samples_by_configuration(totals, record, "cumulative_reward")
    compared = [
        compare_samples(known, samples[known.name], samples.get(known.baseline))
        for known in record.configurations
        if known.name in samples
    ]
    if not record.tests:
        return [row._replace(t=None, df=None, p=None) for row in compared]
    return compared if record.declared else _one_family(compared)


def compare_samples(known: ConfigurationRecord, by_seed: SeedValues, baseline: SeedValues | None) -> Comparison:
    """Returns one configuration's values by seed against its baseline's; p_holm is left to who knows the family."""
    own = [*by_seed.values()]
    interval = mean_effect(own)
    alone = Comparison(
        configuration=known.name,
        group=known.group,
        baseline=known.baseline,
        n=len(own),
        mean=_mean(own),
        sd=float(np.std(own, ddof=1)) if len(own) > 1 else None,
        low=interval.low,
        high=interval.high,
    )
    if baseline is None or known.baseline == known.name:
        return alone._replace(n_baseline=0) if baseline is None and known.baseline else alone
    return alone._replace(**compare(own, [*baseline.values()]))


def _one_family(compared: Sequence[Comparison]) -> list[Comparison]:
    adjusted = holm([row.p for row in compared])
    return [row._replace(p_holm=p) for row, p in zip(compared, adjusted, strict=True)]


def comparison_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """compare_with_baseline as a frame, with `untested`: why there is no p-value."""
    rows = compare_with_baseline(totals, record)
    first = ["configuration", "group", "baseline", "n", "mean", "sd", "low", "high"]
    numbers = Comparison._fields[Comparison._fields.index("improvement") : Comparison._fields.index("measure")]
    table = as_table(rows, [*first, *numbers])
    if not record.tests:
        return table.assign(untested=EXPLORATORY)
    return table.assign(untested=[row.untested if row.baseline or row.p is not None else "baseline" for row in rows])


def declared_results(totals: pd.DataFrame, record: StudyRecord) -> list[Comparison]:
    """Returns one Comparison per declared comparison, in the record's order: the one family of its page.

    Args:
        totals: swarm.plugins.study.analysis.measures.totals of the study's metrics.
        record: the study.
    """
    return _one_family([_as_declared(totals, record, known) for known in record.declared])


def _as_declared(totals: pd.DataFrame, record: StudyRecord, known: DeclaredComparison) -> Comparison:
    samples = samples_by_configuration(totals, record, known.measure)
    a, b = samples.get(known.configuration, {}), samples.get(known.baseline, {})
    if known.test == "paired":
        shared = [seed for seed in a if seed in b]
        a, b = ({seed: side[seed] for seed in shared} for side in (a, b))
    return Comparison(
        configuration=known.configuration,
        baseline=known.baseline,
        measure=known.measure,
        test=known.test,
        hypothesis=known.hypothesis,
        **compare([*a.values()], [*b.values()], known.test),
    )


def declared_table(totals: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """declared_results as a frame, with `untested`: why there is no p-value."""
    first = ["configuration", "baseline", "measure", "test", "hypothesis", "n", "n_baseline", "mean", "baseline_mean"]
    numbers = Comparison._fields[Comparison._fields.index("improvement") : Comparison._fields.index("hedges_g")]
    rows = declared_results(totals, record)
    return as_table(rows, [*first, *numbers]).assign(untested=[row.untested for row in rows])


def as_table(rows: Sequence[NamedTuple | dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Returns these fields of some records as a frame: text and counts as they are, all others as numbers."""
    told = [row if isinstance(row, dict) else row._asdict() for row in rows]
    table = pd.DataFrame(told, columns=[*columns])
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
        if known.baseline != known.name and {known.name, known.baseline} <= measured["reward"].keys()
    ]
    ends = [f"{part}{end}" for part in FACTORS for end in ("", "_low", "_high")]
    return as_table(rows, ["configuration", "baseline", *ends])


def _ratio(part: str, samples: dict[str, SeedValues], known: ConfigurationRecord) -> dict[str, float | None]:
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
