"""Held-out pass@1 of a run, over windows of rounds."""

from __future__ import annotations

import pandas as pd
import pytest

from swarm.plugins.study.analysis.judged import pass_at_1
from tests.plugins.study.analysis.frames_by_hand import make_judged

YES, NO = True, False


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


def test_without_judged_questions_there_is_no_window() -> None:
    assert pass_at_1(make_judged([[YES]]).iloc[:0]).empty
