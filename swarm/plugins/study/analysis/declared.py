"""Tests what a study declared before its runs: the one family of its page.

    StudyRecord.declared, totals (one row per run) ─▶ DeclaredResult, one per declared comparison ─Holm─▶ p_holm

The unit is the seed; only finished runs count.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from swarm.plugins.study.analysis.baseline import samples_by_configuration
from swarm.plugins.study.analysis.effect_size import Effect, improvement
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, holm, paired, welch, zero
from swarm.plugins.study.record import DeclaredComparison, StudyRecord


class DeclaredResult(NamedTuple):
    """A declared comparison and what came of it.

    Numbers are None where swarm.plugins.study.analysis.significance tests nothing, means also where there is no run.
    """

    configuration: str
    baseline: str
    measure: str
    test: str
    hypothesis: str
    n: int
    """Runs; of a paired test those whose seed the other side has, too, as on the baseline's."""
    n_baseline: int | None
    """None where there is no baseline."""
    mean: float | None
    baseline_mean: float | None
    improvement: float | None
    """Percent by which the mean lies above the baseline's; None without one, as its interval."""
    improvement_low: float | None
    """95 % interval of the ratio of means, paired where the test is."""
    improvement_high: float | None
    difference: float | None
    """Difference of the means; the mean itself where it is tested against 0."""
    difference_low: float | None
    """95 % interval from the test's own t."""
    difference_high: float | None
    t: float | None
    df: float | None
    p: float | None
    p_holm: float | None = None
    """Adjusted over all that the study declared and that could be tested."""

    @property
    def why_untested(self) -> str:
        """Returns why there is no p-value; empty where there is one."""
        if self.p is not None:
            return ""
        fewest = self.n if self.n_baseline is None else min(self.n, self.n_baseline)
        return f"n < {FEWEST_SEEDS}" if fewest < FEWEST_SEEDS else "no spread"


def declared_results(totals: pd.DataFrame, record: StudyRecord) -> list[DeclaredResult]:
    """Returns one DeclaredResult per declared comparison, in the record's order.

    Args:
        totals: swarm.plugins.study.analysis.measures.totals of the study's metrics.
        record: the study.
    """
    tested = [_tested(totals, record, known) for known in record.declared]
    adjusted = holm([row.p for row in tested])
    return [row._replace(p_holm=p) for row, p in zip(tested, adjusted, strict=True)]


def _tested(totals: pd.DataFrame, record: StudyRecord, known: DeclaredComparison) -> DeclaredResult:
    a, b = _samples(totals, record, known)
    in_pairs, alone = known.test == "paired", known.test == "zero"
    found = zero(a) if alone else (paired if in_pairs else welch)(a, b)
    gain = Effect() if alone else improvement(a, b, paired=in_pairs)
    means = [sum(x) / len(x) if x else None for x in (a, b)]
    to = 0.0 if alone else means[1]
    return DeclaredResult(
        configuration=known.configuration,
        baseline=known.baseline,
        measure=known.measure,
        test=known.test,
        hypothesis=known.hypothesis,
        n=len(a),
        n_baseline=None if alone else len(b),
        mean=means[0],
        baseline_mean=means[1],
        improvement=gain.value,
        improvement_low=gain.low,
        improvement_high=gain.high,
        difference=None if means[0] is None or to is None else means[0] - to,
        difference_low=found.low,
        difference_high=found.high,
        t=found.t,
        df=found.df,
        p=found.p,
    )


def _samples(totals: pd.DataFrame, record: StudyRecord, known: DeclaredComparison) -> tuple[list[float], list[float]]:
    samples = samples_by_configuration(totals, record, known.measure)
    none = pd.Series(dtype="float64")
    a, b = samples.get(known.configuration, none), samples.get(known.baseline, none)
    if known.test == "paired":
        shared = a.index.intersection(b.index)
        a, b = a[shared], b[shared]
    return a.tolist(), b.tolist()
