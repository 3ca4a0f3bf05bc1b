"""Advantages are relative to the group, and nothing where its rewards do not differ."""

from __future__ import annotations

import math
from statistics import fmean, pstdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swarm.algo.advantage import MIN_STD, group_advantages, is_informative

rewards_of_a_group = st.lists(st.floats(0, 1), min_size=2, max_size=32)


@given(rewards_of_a_group)
def test_advantages_have_mean_zero_and_population_deviation_one(rewards: list[float]) -> None:
    assume(pstdev(rewards) > 2 * MIN_STD)
    advantages = group_advantages(rewards)
    assert fmean(advantages) == pytest.approx(0, abs=1e-9)
    assert pstdev(advantages) == pytest.approx(1)


@given(rewards_of_a_group)
def test_advantages_keep_the_order_of_the_rewards(rewards: list[float]) -> None:
    advantages = group_advantages(rewards)
    pairs = sorted(zip(rewards, advantages, strict=True))
    assert [advantage for _, advantage in pairs] == sorted(advantages)


def test_advantages_are_those_of_the_formula() -> None:
    # mean 0.25, population deviation sqrt(3)/4: the sample's deviation would give 1.5 and -0.5
    assert group_advantages((1.0, 0.0, 0.0, 0.0)) == pytest.approx((math.sqrt(3), *[-1 / math.sqrt(3)] * 3))


@given(st.floats(0, 1), st.integers(1, 32))
def test_equal_rewards_give_no_advantage_at_all(reward: float, size: int) -> None:
    assert group_advantages([reward] * size) == (0.0,) * size


@given(st.floats(0, 1), st.lists(st.floats(-MIN_STD / 2, MIN_STD / 2), min_size=2, max_size=16))
def test_a_near_zero_deviation_is_not_divided_by(reward: float, noise: list[float]) -> None:
    assert not any(group_advantages([reward + part for part in noise]))


@given(rewards_of_a_group)
def test_a_group_is_informative_exactly_if_some_advantage_is_not_zero(rewards: list[float]) -> None:
    assert is_informative(rewards) == (group_advantages(rewards) != (0.0,) * len(rewards))


@pytest.mark.parametrize("rewards", [(), (math.nan, 1.0), (0.0, math.inf), (-math.inf,)])
def test_rewards_that_are_no_numbers_are_an_error(rewards: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages(rewards)
