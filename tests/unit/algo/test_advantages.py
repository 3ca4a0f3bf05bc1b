"""Advantages are relative to the group, and nothing where its rewards do not differ."""

from __future__ import annotations

import math
from statistics import fmean, pstdev, stdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swarm.algo import registry
from swarm.algo.advantages import MIN_STD, batch_spread, group_advantages, is_informative
from swarm.config import ADVANTAGE_SCALINGS

rewards_of_a_group = st.lists(st.floats(0, 1), min_size=2, max_size=32)


def test_advantages_are_those_of_the_formula() -> None:
    # mean 0.25, population deviation sqrt(3)/4: the sample's deviation would give 1.5 and -0.5
    assert group_advantages((1.0, 0.0, 0.0, 0.0)) == pytest.approx((math.sqrt(3), *[-1 / math.sqrt(3)] * 3))


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


# ── scalings ────────────────────────────────────────────────────────────────────────────────────────────────────────
@given(rewards_of_a_group)
def test_each_scaling_divides_by_what_its_name_says(rewards: list[float]) -> None:
    assume(pstdev(rewards) > 2 * MIN_STD)
    for name, spread in (("std", pstdev(rewards)), ("std_sample", stdev(rewards)), ("none", 1.0), ("std_batch", 1.0)):
        expected = [(reward - fmean(rewards)) / spread for reward in rewards]
        assert group_advantages(rewards, registry.advantage_scaling(name)) == pytest.approx(expected, abs=1e-6)


@given(st.lists(rewards_of_a_group, min_size=1, max_size=5))
def test_the_spread_of_a_batch_is_the_deviation_of_all_differences_from_their_groups_means(
    groups: list[list[float]],
) -> None:
    centred = [reward - fmean(group) for group in groups for reward in group]
    found = batch_spread(sum(value**2 for value in centred), len(centred))
    assume(pstdev(centred) > MIN_STD)
    assert found == pytest.approx(pstdev(centred))


def test_a_batch_without_any_difference_is_divided_by_one() -> None:
    assert batch_spread(0.0, 8) == batch_spread(0.0, 0) == 1.0


@pytest.mark.parametrize("name", ADVANTAGE_SCALINGS)
def test_equal_rewards_give_no_advantage_whatever_the_scaling(name: str) -> None:
    assert group_advantages([0.3, 0.3 + MIN_STD / 2, 0.3], registry.advantage_scaling(name)) == (0.0,) * 3
