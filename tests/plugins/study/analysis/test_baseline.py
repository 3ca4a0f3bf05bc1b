"""The table of a study, against scipy called directly and sums worked out by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from scipy import stats

from swarm.plugins.study.analysis import effect_size
from swarm.plugins.study.analysis.comparisons import compare_with_baseline, factors_table, finished
from swarm.plugins.study.analysis.significance import holm
from swarm.plugins.study.record import ConfigurationRecord
from tests.plugins.study.analysis.frames_by_hand import make_record, make_totals

ALONE, SHARING, WORSE = [10.0, 12.0, 14.0], [15.0, 18.0, 21.0], [9.0, 13.0, 12.0]


def test_the_baseline_is_described_and_compared_with_nothing() -> None:
    (row,) = compare_with_baseline(make_totals({"8/0": ALONE}), make_record("8/0"))
    assert (row.configuration, row.n, row.mean, row.sd) == ("8/0", 3, 12, 2)
    assert row.low is not None
    assert row.high is not None
    assert (row.low, row.high) == pytest.approx(tuple(stats.ttest_1samp(ALONE, 0.0).confidence_interval(0.95)))
    assert (row.baseline_mean, row.improvement, row.difference, row.p, row.hedges_g) == (None,) * 5


def test_a_configuration_is_compared_with_its_baseline() -> None:
    _, row = compare_with_baseline(make_totals({"8/0": ALONE, "4/4": SHARING}), make_record("8/0", "4/4"))
    direct = stats.ttest_ind(SHARING, ALONE, equal_var=False)
    assert (row.difference, row.improvement) == (6, pytest.approx(50))
    assert (row.t, row.df, row.p) == pytest.approx((direct.statistic, direct.df, direct.pvalue))
    assert (row.difference_low, row.difference_high) == pytest.approx(tuple(direct.confidence_interval(0.95)))
    # pooled sd sqrt((4 + 9) / 2), J(4) = sqrt(2 / pi)
    assert row.hedges_g == pytest.approx(6 / math.sqrt(6.5) * math.sqrt(2 / math.pi))


def test_all_comparisons_of_a_page_are_one_family_whatever_their_baseline() -> None:
    record = make_record(
        ConfigurationRecord(name="small 8/0", settings={}, group="small"),
        ConfigurationRecord(name="small 4/4", settings={}, group="small", baseline="small 8/0"),
        ConfigurationRecord(name="small 2/6", settings={}, group="small", baseline="small 8/0"),
        ConfigurationRecord(name="large 8/0", settings={}, group="large"),
        ConfigurationRecord(name="large 4/4", settings={}, group="large", baseline="large 8/0"),
    )
    values = dict(zip((known.name for known in record.configurations), (ALONE, SHARING, WORSE) * 2, strict=False))
    rows = {row.configuration: row for row in compare_with_baseline(make_totals(values), record)}
    tested = [row for row in rows.values() if row.p is not None]
    assert [row.configuration for row in tested] == ["small 4/4", "small 2/6", "large 4/4"]
    assert [row.p_holm for row in tested] == pytest.approx(holm([row.p for row in tested]))
    assert rows["large 4/4"].p_holm == pytest.approx(3 * (rows["large 4/4"].p or 0))


def test_the_reward_is_taken_apart_into_format_and_content() -> None:
    totals = make_totals({"8/0": [10.0, 12.0, 14.0], "4/4": [30.0, 36.0, 42.0]})
    totals["cumulative_tagged"] = [20.0, 24.0, 28.0, 40.0, 48.0, 56.0]
    totals["reward_given_tagged"] = totals["cumulative_reward"] / totals["cumulative_tagged"]
    (row,) = factors_table(totals, make_record("8/0", "4/4")).itertuples()
    assert (row.configuration, row.baseline) == ("4/4", "8/0")
    assert (row.reward, row.format, row.content) == pytest.approx((3, 2, 1.5))
    gain = effect_size.improvement([30, 36, 42], [10, 12, 14])
    assert (row.reward_low, row.reward_high) == pytest.approx((1 + gain.low / 100, 1 + gain.high / 100))
    assert (row.content_low, row.content_high) == pytest.approx((1.5, 1.5))


def test_runs_without_any_closed_answer_have_no_content() -> None:
    totals = make_totals({"8/0": [0.0] * 3, "4/4": [3.0, 3.0, 4.0]})
    totals["cumulative_tagged"] = totals["cumulative_reward"]
    totals["reward_given_tagged"] = [float("nan")] * 3 + [1.0] * 3
    (row,) = factors_table(totals, make_record("8/0", "4/4")).itertuples()
    assert pd.isna(row.reward)
    assert pd.isna(row.content)


def test_a_run_that_has_not_all_its_rounds_is_left_out() -> None:
    totals = make_totals({"8/0": ALONE, "4/4": [*SHARING, 1.0]})
    totals.loc[totals["cumulative_reward"] == 1.0, "rounds"] = 9
    record = make_record("8/0", "4/4")
    assert len(finished(totals, record)) == 6
    assert [row.n for row in compare_with_baseline(totals, record)] == [3, 3]


def test_what_has_not_run_is_absent_and_compared_with_nothing() -> None:
    (row,) = compare_with_baseline(make_totals({"4/4": SHARING}), make_record("8/0", "4/4", "2/6"))
    assert (row.configuration, row.baseline, row.difference) == ("4/4", "8/0", None)
    assert compare_with_baseline(make_totals({"8/0": ALONE}), make_record("8/0", rounds=11)) == []


def test_a_configuration_without_a_value_is_absent() -> None:
    totals = make_totals({"8/0": ALONE, "adaptive": SHARING}).assign(cumulative_reward=[float("nan")] * 3 + [4.0, 5, 6])
    (row,) = compare_with_baseline(totals, make_record("8/0", "adaptive"))
    assert (row.configuration, row.mean, row.difference) == ("adaptive", 5, None)
