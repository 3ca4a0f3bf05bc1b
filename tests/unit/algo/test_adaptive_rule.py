"""What adaptive rules have in common: how J is rounded, and what a reward is held against."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from swarm.algo.adaptive_rule import NO_REWARDS, rounded_split


def test_a_j_of_3_point_6_is_3_point_6_in_the_mean() -> None:
    rng = Random(1)
    drawn = [rounded_split(8, 3.6, rng).external for _ in range(5_000)]
    assert set(drawn) == {3, 4}
    assert fmean(drawn) == pytest.approx(3.6, abs=0.03)


def test_rounding_takes_halves_to_the_even_neighbour_and_cuts_off_what_no_node_can_want() -> None:
    assert [rounded_split(8, wanted, None).external for wanted in (0.49, 0.5, 1.5, 2.5, 3.51)] == [0, 0, 2, 2, 4]
    for rng in (Random(0), None):
        assert rounded_split(8, 9.5, rng) == (1, 7, 7.0)
        assert rounded_split(8, -1.0, rng) == (8, 0, 0.0)


def test_a_reward_is_held_against_those_before_it_in_units_of_their_spread() -> None:
    assert NO_REWARDS.surprise(0.4, 0.5) == 0.0
    one = NO_REWARDS.updated(0.4, 0.5)
    assert one.surprise(0.5, 0.5) == pytest.approx(1.0), "the first difference is the spread"
    two = one.updated(0.5, 0.5)
    assert two.value == pytest.approx(0.45)
    assert two.surprise(0.5, 0.5) == pytest.approx(0.05 / 0.075)
    assert two.surprise(0.4, 0.5) == pytest.approx(-0.05 / 0.075)
    assert two.surprise(0.5, 0.9) == pytest.approx(0.05 / 0.075), "few rewards weigh alike whatever the memory"
    assert NO_REWARDS.updated(0.1 + 0.2, 0.5).surprise(0.3, 0.5) == 0.0, "rounding is no difference"


def test_later_rewards_weigh_by_the_memory_and_not_alike() -> None:
    baseline, mean, spread = NO_REWARDS, 0.4, 0.0
    for number, reward in enumerate((0.4, 0.5, 0.7, 0.2, 0.6)):
        weight = max(0.5, 1 / (number + 1))
        if number:
            least = max(0.5, 1 / number)
            spread += least * (abs(reward - mean) - spread)
            assert baseline.surprise(reward, 0.5) == pytest.approx(max(-1.0, min(1.0, (reward - mean) / spread)))
        mean += weight * (reward - mean)
        baseline = baseline.updated(reward, 0.5)
        assert (baseline.mean.value, baseline.spread.value) == (pytest.approx(mean), pytest.approx(spread))
