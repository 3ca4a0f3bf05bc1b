"""Held-out pass@1 of a swarm against isolated nodes, over windows of rounds."""

from __future__ import annotations

import pandas as pd
import pytest
from scipy import stats

from swarm.study.analysis.judged import compare_judged, pass_at_1
from tests.unit.study.analysis.frames_by_hand import make_judged, make_record

YES, NO = True, False


def together(*runs: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(runs, ignore_index=True)


def test_pass_at_1_is_the_share_of_full_answers_in_each_window() -> None:
    found = pass_at_1(make_judged([[YES, NO], [NO, NO], [YES, YES]]), window=2)
    assert found["experiment"].tolist() == ["8/0-1"] * 2
    assert found["round"].tolist() == [0, 2]
    assert found["pass_at_1"].tolist() == [0.25, 1.0]
    assert found["reward"].tolist() == pytest.approx([(1 + 3 * 0.25) / 4, 1.0])
    assert found["questions"].tolist() == [4, 2]


def test_pass_at_1_is_the_share_of_answers_times_the_share_of_these_that_are_right() -> None:
    judged = make_judged([[YES, NO], [NO, NO]]).assign(answered=[YES, YES, NO, NO])
    found = pass_at_1(judged, window=1)
    assert found["answered"].tolist() == [1.0, 0.0]
    assert found["given_answered"][0] == 0.5
    assert pd.isna(found["given_answered"][1])
    (together_,) = pass_at_1(judged, window=2).to_dict("records")
    assert (together_["pass_at_1"], together_["answered"], together_["given_answered"]) == (0.25, 0.5, 0.5)


def test_seeds_are_the_unit_of_several_runs() -> None:
    swarm = [make_judged([[YES] * n + [NO] * (4 - n)], "4/4", seed) for seed, n in enumerate((4, 3, 3))]
    isolated = [make_judged([[YES] * n + [NO] * (4 - n)], "8/0", seed) for seed, n in enumerate((1, 1, 2))]
    (row,) = compare_judged(together(*swarm, *isolated), make_record("8/0", "4/4"), window=1)
    direct = stats.ttest_ind([1, 0.75, 0.75], [0.25, 0.25, 0.5], equal_var=False)
    assert (row.unit, row.n, row.n_baseline) == ("seed", 3, 3)
    assert (row.mean, row.baseline_mean) == (pytest.approx(2.5 / 3), pytest.approx(1 / 3))
    assert (row.t, row.df, row.p) == pytest.approx((direct.statistic, direct.df, direct.pvalue))
    assert row.p_holm == row.p


def test_nodes_are_the_unit_and_said_to_be_where_each_side_has_one_run() -> None:
    judged = together(make_judged([[YES, YES, NO]], "4/4"), make_judged([[NO, YES, NO]], "8/0"))
    (row,) = compare_judged(judged, make_record("8/0", "4/4"), window=1)
    assert (row.unit, row.n, row.n_baseline) == ("node", 3, 3)
    assert row.p == pytest.approx(stats.ttest_ind([1, 1, 0], [0, 1, 0], equal_var=False).pvalue)


def test_two_seeds_are_not_tested_by_their_nodes() -> None:
    runs = [make_judged([[YES, NO, NO]], name, seed) for name in ("8/0", "4/4") for seed in (1, 2)]
    (row,) = compare_judged(together(*runs), make_record("8/0", "4/4"))
    assert (row.unit, row.n, row.p) == ("seed", 2, None)


def test_p_is_adjusted_over_the_windows_of_a_configuration() -> None:
    swarm = make_judged([[YES, YES, YES, NO], [YES, YES, NO, NO]], "4/4")
    isolated = make_judged([[NO, NO, NO, YES], [YES, NO, NO, NO]], "8/0")
    first, second = compare_judged(together(swarm, isolated), make_record("8/0", "4/4"), window=1)
    assert first.p is not None
    assert second.p is not None
    assert first.p < second.p
    assert first.p_holm == pytest.approx(2 * first.p)
    assert second.p_holm == pytest.approx(max(2 * first.p, second.p))


def test_a_window_that_one_side_has_not_reached_is_left_out() -> None:
    judged = together(make_judged([[YES], [YES]], "4/4"), make_judged([[NO]], "8/0"))
    assert [row.round for row in compare_judged(judged, make_record("8/0", "4/4"), window=1)] == [0]


def test_windows_in_which_nobody_knew_anything_have_no_p() -> None:
    judged = together(make_judged([[NO] * 3], "4/4"), make_judged([[NO] * 3], "8/0"))
    (row,) = compare_judged(judged, make_record("8/0", "4/4"))
    assert (row.mean, row.p, row.p_holm, row.hedges_g) == (0, None, None, None)


def test_nothing_is_compared_without_a_judged_baseline() -> None:
    assert compare_judged(make_judged([[YES]], "4/4"), make_record("8/0", "4/4")) == []
    assert compare_judged(make_judged([[YES]]).iloc[:0], make_record("8/0", "4/4")) == []
    assert pass_at_1(make_judged([[YES]]).iloc[:0]).empty
