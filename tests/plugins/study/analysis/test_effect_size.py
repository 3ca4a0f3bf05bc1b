"""Hedges' g, means and improvements with their intervals, against hand-worked numbers and scipy called directly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.interval_coverage import coverage
from swarm.plugins.study.analysis.effect_size import Effect, hedges_g, improvement, mean_effect, small_sample_factor

samples = st.lists(st.integers(-9, 9).map(lambda tenths: tenths / 10), max_size=5)


def test_hedges_g_is_the_hand_worked_one() -> None:
    # difference 4, pooled sd 1, J(4) = Gamma(2) / (sqrt(2) Gamma(1.5)) = 1 / (sqrt(2) sqrt(pi) / 2)
    assert hedges_g([5, 6, 7], [1, 2, 3]).value == pytest.approx(4 * math.sqrt(2 / math.pi))


def test_the_interval_of_g_is_where_the_observed_t_would_be_a_limit() -> None:
    a, b = [5.0, 6, 8, 7, 7], [4.0, 5, 6, 5, 4]
    t = float(stats.ttest_ind(a, b).statistic)
    found = hedges_g(a, b)
    assert found.low is not None
    assert found.high is not None
    scale = math.sqrt(2 / 5)
    assert stats.nct.sf(t, 8, found.low / scale) == pytest.approx(0.025)
    assert stats.nct.cdf(t, 8, found.high / scale) == pytest.approx(0.025)


def test_g_without_spread_is_not_defined_and_two_runs_a_side_give_no_interval() -> None:
    assert hedges_g([0.1] * 3, [0.2] * 3) == hedges_g([1], [1, 2, 3]) == Effect()
    assert hedges_g([1, 2], [3, 4]) == (pytest.approx(-2 * small_sample_factor(2) / math.sqrt(0.5)), None, None)


def test_an_effect_beyond_the_noncentral_t_has_no_interval() -> None:
    found = hedges_g([1, 1 + 1e-6, 1], [2, 2, 2])
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_the_mean_has_students_interval() -> None:
    sample = [3.0, 5, 4, 8, 6]
    expected = stats.ttest_1samp(sample, 0.0).confidence_interval(0.95)
    assert mean_effect(sample) == (pytest.approx(5.2), pytest.approx(expected.low), pytest.approx(expected.high))


def test_the_interval_of_an_improvement_is_the_hand_worked_one() -> None:
    # u_a = 4 / 3 / 900, u_b = 4 / 3 / 400; df = (u_a + u_b)^2 / (u_a^2 / 2 + u_b^2 / 2)
    u_a, u_b = 4 / 3 / 900, 4 / 3 / 400
    df = (u_a + u_b) ** 2 / (u_a**2 / 2 + u_b**2 / 2)
    half = float(stats.t.ppf(0.975, df)) * math.sqrt(u_a + u_b)
    found = improvement([28, 30, 32], [18, 20, 22])
    assert found.low == pytest.approx(100 * (1.5 * math.exp(-half) - 1))
    assert found.high == pytest.approx(100 * (1.5 * math.exp(half) - 1))


def test_the_paired_interval_is_that_of_the_differences_of_what_is_scaled_to_a_mean_of_one() -> None:
    a, b = [33.0, 60, 45], [20.0, 40, 33]
    scaled = [x / 46 - y / 31 for x, y in zip(a, b, strict=True)]
    half = stats.ttest_1samp(scaled, 0.0).confidence_interval(0.95).high
    found = improvement(a, b, paired=True)
    assert found.low == pytest.approx(100 * (46 / 31 * math.exp(-half) - 1))
    assert found.high == pytest.approx(100 * (46 / 31 * math.exp(half) - 1))


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_intervals_cover_what_they_say(seeds: int) -> None:
    covered = coverage("normal", seeds=seeds, spread=(0.2, 0.4), repetitions=1500)
    assert 0.93 < covered.mean < 0.97
    assert 0.93 < covered.improvement < 0.975
    assert 0.93 < covered.paired < 0.975


def test_there_is_no_improvement_over_nothing() -> None:
    assert improvement([1, 2, 3], [0, 0, 0]) == improvement([], [1, 2, 3]) == improvement([1.0], []) == Effect()
    assert improvement([0, 0, 0], [0, 1, 2]) == Effect(-100.0)


def test_fewer_than_three_runs_have_a_value_and_no_interval() -> None:
    assert mean_effect([1, 2]) == Effect(1.5)
    assert improvement([3, 3], [2, 2, 2]) == Effect(50.0)
    assert mean_effect([]) == Effect()


@settings(max_examples=40)
@given(samples, samples)
def test_every_number_is_finite_or_none(a: list[float], b: list[float]) -> None:
    for value in (*hedges_g(a, b), *mean_effect(a), *improvement(a, [abs(x) for x in b])):
        assert value is None or math.isfinite(value)
