"""External groups: the informative ones, uniformly, by nothing but seed, node and round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.advantages import is_informative
from swarm.algo.samplers import whole_pool
from swarm.algo.sampling import (
    Weighted,
    choose_tasks,
    expected_taken,
    first_of_each_peer,
    most_of_peer,
    sample_external,
    winners,
)
from swarm.algo.seeds import derive_random
from swarm.types import ScoredGroup
from tests.unit.algo.factories import UNINFORMATIVE, make_pool, make_scored
from tests.unit.algo.test_samplers import POOLS


def chosen_slots(groups: Sequence[ScoredGroup]) -> list[tuple[str, int]]:
    return [(scored.group.peer_id, scored.group.slot) for scored in groups]


@given(POOLS, st.integers(0, 8), st.randoms(use_true_random=False))
def test_lesson_no_zero_advantage_filter_such_groups_are_never_sampled(
    pool: list[ScoredGroup], count: int, rng: Random
) -> None:
    assert all(is_informative(scored.rewards) for scored in sample_external(pool, count, rng))


def test_every_pair_of_groups_is_sampled_about_as_often() -> None:
    draws, pool = 6_000, make_pool(6)
    rng = derive_random(42, "test")
    seen = Counter(frozenset(chosen_slots(sample_external(pool, 2, rng))) for _ in range(draws))
    pairs = [frozenset(pair) for pair in combinations(chosen_slots(pool), 2)]
    expected = draws / len(pairs)
    chi_square = sum((seen[pair] - expected) ** 2 / expected for pair in pairs)
    assert sum(seen.values()) == sum(seen[pair] for pair in pairs)
    assert chi_square < 29.1  # 99 % quantile at 14 degrees of freedom


def test_lesson_sampling_reseeded_on_every_call_positions_differ_between_rounds_and_nodes() -> None:
    pool = make_pool(32)
    sampled = {
        tuple(chosen_slots(sample_external(pool, 4, derive_random(42, "external", node, round_, 0))))
        for node in ("anna", "ben")
        for round_ in range(50)
    }
    assert len(sampled) == 100


def test_another_sampler_sees_only_informative_groups_in_a_fixed_order() -> None:
    def last(groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
        return list(groups)[-count:]

    pool = [
        make_scored("ben", 1, round_=1),
        make_scored("anna", 0, rewards=UNINFORMATIVE, round_=1),
        make_scored("ben", 0, round_=1),
        make_scored("anna", 1, round_=1),
        make_scored("zoe", 9, round_=0),
    ]
    assert chosen_slots(sample_external(pool, 2, Random(0), last)) == [("ben", 0), ("ben", 1)]
    assert chosen_slots(sample_external(pool, 9, Random(0), last)) == [("zoe", 9), ("anna", 1), ("ben", 0), ("ben", 1)]


def test_specialties_are_drawn_with_replacement_and_all_of_them_in_time() -> None:
    tasks = Weighted.of(dict.fromkeys(["bf", "arc_1d", "base_conversion"], 1))
    drawn = Counter(choose_tasks(tasks, 3_000, derive_random(42, "tasks")))
    assert len(choose_tasks(Weighted.of({"bf": 1}), 4, Random(0))) == 4
    assert all(900 < drawn[task] < 1_100 for task in tasks.tasks)


def test_specialties_are_drawn_by_their_weights_and_equal_weights_are_none() -> None:
    drawn = Counter(choose_tasks(Weighted.of({"bf": 3, "arc_1d": 1}), 4_000, derive_random(42, "tasks")))
    assert 2_900 < drawn["bf"] < 3_100
    even, plain = Weighted.of({"bf": 2, "arc_1d": 2}), Weighted.of({"bf": 1, "arc_1d": 1})
    assert choose_tasks(even, 50, Random(1)) == choose_tasks(plain, 50, Random(1))


@pytest.mark.parametrize(
    ("rewards", "best"),
    [
        ({}, []),
        ({"anna": 0.0, "ben": 0.0}, []),
        ({"anna": 0.1, "ben": 0.3}, ["ben"]),
        ({"ben": 0.3, "zoe": 0.2, "anna": 0.3}, ["anna", "ben"]),
    ],
)
def test_winners_are_the_best_all_of_them_and_nobody_without_a_reward(
    rewards: dict[str, float], best: list[str]
) -> None:
    assert winners(rewards) == best


# ── the share of one peer ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("count", "share", "most"), [(4, 1.0, None), (4, 0.5, 2), (10, 0.3, 3), (4, 0.1, 1), (0, 0.5, 1), (3, 0.99, 2)]
)
def test_a_share_of_the_external_groups_is_rounded_down_to_one_at_least(
    count: int, share: float, most: int | None
) -> None:
    assert most_of_peer(count, share) == most


@given(POOLS, st.integers(1, 8), st.integers(1, 3), st.randoms(use_true_random=False))
def test_no_peer_gives_more_than_its_share_whatever_the_sampler(
    pool: list[ScoredGroup], count: int, most: int, rng: Random
) -> None:
    by_peer = Counter(scored.group.peer_id for scored in sample_external(pool, count, rng, whole_pool, most))
    offered = Counter(scored.group.peer_id for scored in pool if is_informative(scored.rewards))
    assert all(number <= most for number in by_peer.values())
    assert by_peer.total() == min(count, sum(min(most, number) for number in offered.values()))


def test_of_each_peer_the_first_groups_stay_in_their_order() -> None:
    groups = [make_scored(peer, slot) for slot, peer in enumerate("aabab")]
    assert chosen_slots(first_of_each_peer(groups, 1)) == [("a", 0), ("b", 2)]
    assert first_of_each_peer(groups, None) == groups


@pytest.mark.parametrize(
    ("slots", "offered", "share", "taken"),
    [(2, 3, 0.5, 1.375), (5, 3, 0.5, 1.5), (1, 2, 0.25, 0.4375), (2, 3, 1.0, 2.0), (4, 3, 1.0, 3.0), (2, 3, 0.0, 0.0)],
)
def test_of_groups_that_are_informative_by_chance_as_many_are_expected_as_a_binomial_gives(
    slots: int, offered: int, share: float, taken: float
) -> None:
    assert expected_taken(slots, offered, share) == pytest.approx(taken)
