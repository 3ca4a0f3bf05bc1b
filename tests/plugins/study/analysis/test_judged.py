"""Held-out pass@1 of a swarm against isolated nodes, over windows of rounds."""

from __future__ import annotations

import pandas as pd
import pytest
from scipy import stats

from swarm.plugins.study.analysis.comparisons import Comparison, compare_judged
from swarm.plugins.study.analysis.judged import pass_at_1
from tests.plugins.study.analysis.frames_by_hand import make_judged, make_record

YES, NO = True, False


def together(*runs: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(runs, ignore_index=True)


def compared(*runs: pd.DataFrame) -> list[Comparison]:
    return compare_judged(pass_at_1(together(*runs), window=1), make_record("8/0", "4/4"))


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


def test_the_seed_is_the_unit_of_a_window() -> None:
    swarm = [make_judged([[YES] * n + [NO] * (4 - n)], "4/4", seed) for seed, n in enumerate((4, 3, 3))]
    isolated = [make_judged([[YES] * n + [NO] * (4 - n)], "8/0", seed) for seed, n in enumerate((1, 1, 2))]
    (row,) = compared(*swarm, *isolated)
    direct = stats.ttest_ind([1, 0.75, 0.75], [0.25, 0.25, 0.5], equal_var=False)
    assert (row.n, row.n_baseline) == (3, 3)
    assert (row.mean, row.baseline_mean) == (pytest.approx(2.5 / 3), pytest.approx(1 / 3))
    assert (row.t, row.df, row.p) == pytest.approx((direct.statistic, direct.df, direct.pvalue))


def test_nodes_are_no_samples_however_few_the_seeds() -> None:
    for seeds in ((1,), (1, 2)):
        runs = [make_judged([[YES, NO, NO]], name, seed) for name in ("8/0", "4/4") for seed in seeds]
        (row,) = compared(*runs)
        assert (row.n, row.p) == (len(seeds), None)


def test_a_window_that_one_side_has_not_reached_is_left_out() -> None:
    rows = compared(make_judged([[YES], [YES]], "4/4"), make_judged([[NO]], "8/0"))
    assert [row.round for row in rows] == [0]


def test_nothing_is_compared_without_a_judged_baseline() -> None:
    assert compared(make_judged([[YES]], "4/4")) == []
    assert compared(make_judged([[YES]]).iloc[:0]) == []
    assert pass_at_1(make_judged([[YES]]).iloc[:0]).empty
