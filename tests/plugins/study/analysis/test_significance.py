"""Welch, ANOVA and Holm, against hand-worked numbers and scipy called directly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, Anova, TTest, anova, holm, paired, welch

samples = st.lists(st.integers(-9, 9).map(lambda tenths: tenths / 10), max_size=5)
probabilities = st.lists(st.none() | st.floats(0, 1), max_size=12)


def test_welch_gives_the_hand_worked_t_and_degrees_of_freedom() -> None:
    found = welch([4, 5, 6], [1, 2, 3, 6])
    # means 5 and 3; s²/n = 1/3 and (14/3)/4 = 7/6, together 3/2; df = (3/2)² / ((1/9)/2 + (49/36)/3)
    assert found.t == pytest.approx(2 / math.sqrt(1.5))
    assert found.df == pytest.approx(2.25 / (1 / 18 + 49 / 108))
    assert found.p == pytest.approx(2 * stats.t.sf(2 / math.sqrt(1.5), 2.25 / (1 / 18 + 49 / 108)))


def test_the_interval_of_the_difference_is_that_of_the_same_t() -> None:
    found = welch([4, 5, 6], [1, 2, 3, 6])
    reach = float(stats.t.ppf(0.975, 2.25 / (1 / 18 + 49 / 108))) * math.sqrt(1.5)
    assert (found.low, found.high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_with_fewer_than_three_runs_on_either_side_nothing_is_tested() -> None:
    assert FEWEST_SEEDS == 3
    assert welch([1, 2], [3, 4, 5]) == welch([3, 4, 5], [1, 2]) == welch([], []) == TTest()
    assert anova([[1, 2], [3, 4, 5]]) == anova([[1, 2, 3]]) == Anova()
    assert paired([1, 2], [3, 5]) == TTest()


def test_without_spread_on_both_sides_nothing_is_tested() -> None:
    assert welch([0.1] * 3, [0.1] * 3) == welch([0.1] * 3, [0.2] * 4) == TTest()
    assert anova([[0.1] * 3, [0.3] * 3]) == Anova()
    assert paired([1, 2, 3], [2, 3, 4]) == TTest()


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


def test_welchs_f_of_two_samples_is_the_square_of_welchs_t() -> None:
    a, b = [4.0, 5, 6], [1.0, 2, 3, 6]
    found, t = anova([a, b]), welch(a, b)
    assert t.t is not None
    assert found.welch_f == pytest.approx(t.t**2)
    assert found.welch_df_within == pytest.approx(t.df)
    assert found.welch_p == pytest.approx(t.p)


def test_equal_means_that_round_to_a_negative_f_have_p_1() -> None:
    found = anova([[0, 0, 0, 0, 3, 1], [0, 0, 0, 0, 0, 4]])
    assert (found.f, found.p) == (0, 1)


@settings(max_examples=40)
@given(samples, samples)
def test_every_number_is_finite_or_none(a: list[float], b: list[float]) -> None:
    for value in (*welch(a, b), *anova([a, b])):
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
