"""Welch, ANOVA, Holm, effects and their intervals, against hand-worked numbers and scipy called directly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.interval_coverage import coverage
from swarm.plugins.study.analysis.effect_size import Effect, hedges_g, improvement, mean_effect, small_sample_factor
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, Anova, TTest, anova, holm, paired, welch

samples = st.lists(st.integers(-9, 9).map(lambda tenths: tenths / 10), max_size=5)
probabilities = st.lists(st.none() | st.floats(0, 1), max_size=12)


def test_welch_gives_the_hand_worked_t_and_degrees_of_freedom() -> None:
    found = welch([4, 5, 6], [1, 2, 3, 6])
    # means 5 and 3; s²/n = 1/3 and (14/3)/4 = 7/6, together 3/2; df = (3/2)² / ((1/9)/2 + (49/36)/3)
    assert found.t == pytest.approx(2 / math.sqrt(1.5))
    assert found.df == pytest.approx(2.25 / (1 / 18 + 49 / 108))
    assert found.p == pytest.approx(2 * stats.t.sf(2 / math.sqrt(1.5), 2.25 / (1 / 18 + 49 / 108)))
    reach = float(stats.t.ppf(0.975, 2.25 / (1 / 18 + 49 / 108))) * math.sqrt(1.5)
    assert (found.low, found.high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_with_fewer_than_three_runs_or_no_spread_on_either_side_nothing_is_tested() -> None:
    assert FEWEST_SEEDS == 3
    assert welch([1, 2], [3, 4, 5]) == welch([3, 4, 5], [1, 2]) == welch([], []) == TTest()
    assert welch([0.1] * 3, [0.1] * 3) == welch([0.1] * 3, [0.2] * 4) == TTest()
    assert paired([1, 2], [3, 5]) == paired([1, 2, 3], [2, 3, 4]) == TTest()
    assert anova([[1, 2], [3, 4, 5]]) == anova([[1, 2, 3]]) == anova([[0.1] * 3, [0.3] * 3]) == Anova()


def test_one_side_without_spread_is_tested_by_the_other_ones() -> None:
    found = welch([2, 2, 2], [1, 2, 3])
    assert (found.t, found.df, found.p) == (0, 2, 1)
    mixed = anova([[2, 2, 2], [1, 2, 3]])
    assert mixed.p == pytest.approx(1)
    assert mixed.welch_p is None


def test_the_paired_test_looks_at_differences_alone() -> None:
    direct = stats.ttest_rel([11, 22, 33], [10, 20, 30])
    expected = (direct.statistic, 2, direct.pvalue, *direct.confidence_interval(0.95))
    assert paired([11, 22, 33], [10, 20, 30]) == pytest.approx(expected)


def test_anova_gives_the_hand_worked_f() -> None:
    found = anova([[1, 2, 3], [2, 3, 4], [6, 7, 8]])
    # group means 2, 3, 7 around 4: between 3 (4 + 1 + 9) / 2 = 21; within 6 / 6 = 1
    assert found.f == pytest.approx(21)
    assert (found.df_between, found.df_within) == (2, 6)
    assert found.p == pytest.approx(stats.f.sf(21, 2, 6))
    rounded = anova([[0, 0, 0, 0, 3, 1], [0, 0, 0, 0, 0, 4]])
    assert (rounded.f, rounded.p) == (0, 1), "equal means, whose F rounds to a negative one"


def test_welchs_f_of_two_samples_is_the_square_of_welchs_t() -> None:
    a, b = [4.0, 5, 6], [1.0, 2, 3, 6]
    found, t = anova([a, b]), welch(a, b)
    assert t.t is not None
    assert found.welch_f == pytest.approx(t.t**2)
    assert found.welch_df_within == pytest.approx(t.df)
    assert found.welch_p == pytest.approx(t.p)


@settings(max_examples=40)
@given(samples, samples)
def test_every_number_is_finite_or_none(a: list[float], b: list[float]) -> None:
    effects = (*hedges_g(a, b), *mean_effect(a), *improvement(a, [abs(x) for x in b]))
    for value in (*welch(a, b), *anova([a, b]), *effects):
        assert value is None or math.isfinite(value)


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 3 x 0.01, then 2 x 0.03; 1 x 0.04 may not be below that
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.01, None, 0.04], [0.02, None, 0.04]),
        ([], []),
    ],
)
def test_holm_steps_down(raw: list[float | None], adjusted: list[float | None]) -> None:
    assert holm(raw) == [None if p is None else pytest.approx(p) for p in adjusted]


@given(probabilities)
def test_holm_keeps_the_order_and_never_lowers_a_p(raw: list[float | None]) -> None:
    adjusted = holm(raw)
    pairs = sorted((p, q) for p, q in zip(raw, adjusted, strict=True) if p is not None and q is not None)
    assert len(pairs) == sum(p is not None for p in raw)
    assert all(p <= q <= 1 for p, q in pairs)
    assert [q for _, q in pairs] == sorted(q for _, q in pairs)


# ── effects ─────────────────────────────────────────────────────────────────────────────────────────────────────────
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
    assert improvement([3, 3], [2, 2, 2]) == Effect(50.0), "fewer than three runs have no interval"
    assert (mean_effect([1, 2]), mean_effect([])) == (Effect(1.5), Effect())
