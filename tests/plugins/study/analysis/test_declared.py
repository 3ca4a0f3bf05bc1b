"""What was declared before the runs: its tests, against scipy called directly, and its one family."""

from __future__ import annotations

import pytest
from scipy import stats

from swarm.plugins.study.analysis.comparisons import Comparison, declared_results
from swarm.plugins.study.analysis.effect_size import improvement
from swarm.plugins.study.record import DeclaredComparison
from tests.plugins.study.analysis.frames_by_hand import make_record, make_totals

ALONE, SHARING, WORSE = [10.0, 12.0, 14.0], [15.0, 18.0, 21.0], [9.0, 13.0, 12.0]


def declared(configuration: str = "4/4", **fields: str) -> DeclaredComparison:
    return DeclaredComparison(configuration=configuration, baseline="8/0", **fields)


def results(values: dict[str, list[float]], *comparisons: DeclaredComparison) -> list[Comparison]:
    return declared_results(make_totals(values), make_record(*values, declared=comparisons))


def test_a_comparison_is_tested_as_declared_and_keeps_its_hypothesis() -> None:
    values = {"8/0": ALONE, "4/4": SHARING}
    (apart,) = results(values, declared(hypothesis="more"))
    direct = stats.ttest_ind(SHARING, ALONE, equal_var=False)
    assert (apart.hypothesis, apart.n, apart.mean, apart.baseline_mean, apart.difference) == ("more", 3, 18, 12, 6)
    assert (apart.t, apart.df, apart.p) == pytest.approx((direct.statistic, direct.df, direct.pvalue))
    assert (apart.difference_low, apart.difference_high) == pytest.approx(tuple(direct.confidence_interval(0.95)))
    (pairs,) = results(values, declared(test="paired"))
    assert pairs.p == pytest.approx(stats.ttest_rel(SHARING, ALONE).pvalue)
    assert (pairs.improvement, pairs.improvement_low, pairs.improvement_high) == pytest.approx(
        tuple(improvement(SHARING, ALONE, paired=True))
    )


def test_pairs_are_runs_of_one_seed() -> None:
    totals = make_totals({"8/0": [10, 20, 30, 40], "4/4": [21, 32, 44]})
    totals.loc[totals["configuration"] == "4/4", "seed"] = [2, 3, 4]
    record = make_record("8/0", "4/4", declared=[declared(test="paired")])
    (row,) = declared_results(totals.iloc[::-1], record)
    assert (row.n, row.n_baseline, row.baseline_mean) == (3, 3, 30)
    assert row.p == pytest.approx(stats.ttest_rel([21, 32, 44], [20, 30, 40]).pvalue)


def test_all_that_was_declared_is_one_family_whatever_its_measure_and_test() -> None:
    totals = make_totals({"8/0": ALONE, "4/4": SHARING, "2/6": WORSE})
    totals["final_reward"] = totals["cumulative_reward"] ** 2
    comparisons = [declared(), declared("2/6", test="paired"), declared(measure="final_reward")]
    rows = declared_results(totals, make_record("8/0", "4/4", "2/6", declared=comparisons))
    smallest = min(row.p or 1 for row in rows)
    (first,) = [row for row in rows if row.p == smallest]
    assert first.p_holm == pytest.approx(3 * smallest)
    assert [row.measure for row in rows] == ["cumulative_reward", "cumulative_reward", "final_reward"]


def test_what_cannot_be_tested_says_why_and_is_no_member_of_the_family() -> None:
    values = {"8/0": ALONE, "4/4": SHARING, "2/6": WORSE[:2], "6/2": [12.0]}
    full, two, none = results(values, declared(), declared("2/6"), declared("0/8"))
    assert full.p_holm == full.p
    assert (two.n, two.difference, two.p, two.p_holm, two.untested) == (2, -1, None, None, "n < 3")
    assert (none.n, none.mean, none.difference, none.untested) == (0, None, None, "n < 3")
    (same,) = results({"8/0": [1.0] * 3, "4/4": [1.0] * 3}, declared())
    assert (same.p, same.untested) == (None, "no spread")


def test_a_mean_against_zero_needs_no_baseline_and_is_of_the_same_family() -> None:
    totals = make_totals({"8/0": ALONE, "4/4": SHARING})
    totals["quality_J"] = [float("nan")] * 3 + [0.5, 0.25, 0.75]
    record = make_record("8/0", "4/4", declared=[declared(), correlation()])
    _, against_zero = declared_results(totals, record)
    direct = stats.ttest_1samp([0.5, 0.25, 0.75], 0.0)
    assert (against_zero.n, against_zero.mean, against_zero.difference) == (3, 0.5, 0.5)
    assert (against_zero.n_baseline, against_zero.baseline_mean, against_zero.improvement) == (None, None, None)
    assert (against_zero.t, against_zero.p) == pytest.approx((direct.statistic, direct.pvalue))
    assert (against_zero.difference_low, against_zero.difference_high) == pytest.approx(
        tuple(direct.confidence_interval(0.95))
    )
    assert against_zero.p_holm != against_zero.p, "of two that were declared"


def correlation() -> DeclaredComparison:
    return DeclaredComparison(configuration="4/4", measure="quality_J", test="zero")
