"""External groups: the informative ones, by nothing but seed, node and round, uniformly or as a sampler chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.advantages import is_informative
from swarm.algo.sampling import (
    SAMPLERS,
    Weighted,
    balanced,
    choose_tasks,
    expected_taken,
    first_of_each_peer,
    informative,
    most_of_peer,
    sample_external,
    whole_pool,
    winners,
)
from swarm.algo.seeds import derive_random
from swarm.types import ScoredGroup
from tests.unit.algo.factories import INFORMATIVE, UNINFORMATIVE, make_pool, make_scored

POOLS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 2), st.sampled_from([INFORMATIVE, UNINFORMATIVE])
    ),
    unique_by=lambda made: made[:3],
    max_size=20,
).map(lambda made: [make_scored(peer, slot, round_=round_, rewards=r) for peer, slot, round_, r in made])
randoms = st.randoms(use_true_random=False)


def chosen_slots(groups: Sequence[ScoredGroup]) -> list[tuple[str, int]]:
    return [(scored.group.peer_id, scored.group.slot) for scored in groups]


@given(POOLS, st.integers(0, 8), randoms)
def test_lesson_no_zero_advantage_filter_such_groups_are_never_sampled(
    pool: list[ScoredGroup], count: int, rng: Random
) -> None:
    assert all(is_informative(scored.rewards) for scored in sample_external(pool, count, rng))


@pytest.mark.parametrize("name", SAMPLERS)
@given(POOLS, st.integers(0, 9), st.integers(), randoms)
def test_every_sampler_gives_so_many_different_informative_groups_whatever_arrived_first(
    name: str, pool: list[ScoredGroup], count: int, seed: int, shuffler: Random
) -> None:
    sampled = sample_external(pool, count, Random(seed), SAMPLERS[name])
    there = [scored for scored in pool if is_informative(scored.rewards)]
    assert len(sampled) == len({id(scored) for scored in sampled}) == min(count, len(there))
    assert all(scored in there for scored in sampled)
    shuffler.shuffle(pool)
    assert sample_external(pool, count, Random(seed), SAMPLERS[name]) == sampled


def test_every_pair_of_groups_is_sampled_about_as_often() -> None:
    draws, pool, rng = 6_000, make_pool(6), derive_random(42, "test")
    seen = Counter(frozenset(chosen_slots(sample_external(pool, 2, rng))) for _ in range(draws))
    pairs = [frozenset(pair) for pair in combinations(chosen_slots(pool), 2)]
    expected = draws / len(pairs)
    assert set(seen) <= set(pairs)
    assert sum((seen[pair] - expected) ** 2 / expected for pair in pairs) < 29.1  # 99 % quantile, 14 degrees of freedom


def test_lesson_sampling_reseeded_on_every_call_positions_differ_between_rounds_and_nodes() -> None:
    pool = make_pool(32)
    sampled = {
        tuple(chosen_slots(sample_external(pool, 4, derive_random(42, "external", node, round_, 0))))
        for node in ("anna", "ben")
        for round_ in range(50)
    }
    assert len(sampled) == 100


def test_a_sampler_sees_only_informative_groups_in_a_fixed_order() -> None:
    def last(groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
        return list(groups)[-count:]

    pool = [make_scored(peer, slot, round_=1) for peer, slot in (("ben", 1), ("ben", 0), ("anna", 1))]
    pool += [make_scored("anna", 0, rewards=UNINFORMATIVE, round_=1), make_scored("zoe", 9, round_=0)]
    assert chosen_slots(sample_external(pool, 2, Random(0), last)) == [("ben", 0), ("ben", 1)]
    assert chosen_slots(sample_external(pool, 9, Random(0), last)) == [("zoe", 9), ("anna", 1), ("ben", 0), ("ben", 1)]


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_specialties_are_drawn_with_replacement_by_their_weights_and_equal_weights_are_none() -> None:
    alike = Counter(choose_tasks(Weighted.of(dict.fromkeys("abc", 1)), 3_000, derive_random(42, "tasks")))
    assert all(900 < alike[task] < 1_100 for task in "abc")
    weighed = Counter(choose_tasks(Weighted.of({"a": 3, "b": 1}), 4_000, derive_random(42, "tasks")))
    assert 2_900 < weighed["a"] < 3_100
    even, plain = Weighted.of({"a": 2, "b": 2}), Weighted.of({"a": 1, "b": 1})
    assert choose_tasks(even, 50, Random(1)) == choose_tasks(plain, 50, Random(1))


@given(st.integers(1, 12), st.integers(0, 12), st.integers(), st.floats(0.01, 100))
def test_the_questions_of_fewer_slots_are_the_first_of_those_of_more(
    few: int, more: int, seed: int, weight: float
) -> None:
    tasks = Weighted.of({"bf": 1, "arc_1d": weight, "base_conversion": 1})
    assert choose_tasks(tasks, few + more, Random(seed))[:few] == choose_tasks(tasks, few, Random(seed))


# ── the share of one peer ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("count", "share", "most"), [(4, 1.0, None), (4, 0.5, 2), (10, 0.3, 3), (4, 0.1, 1), (0, 0.5, 1), (3, 0.99, 2)]
)
def test_a_share_of_the_external_groups_is_rounded_down_to_one_at_least(
    count: int, share: float, most: int | None
) -> None:
    assert most_of_peer(count, share) == most


@given(POOLS, st.integers(1, 8), st.integers(1, 3), randoms)
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


# ── samplers beyond the paper's ─────────────────────────────────────────────────────────────────────────────────────
def test_informative_takes_groups_in_proportion_to_the_variance_of_their_rewards() -> None:
    even, odd = make_scored("anna", rewards=(0.0, 1.0) * 4), make_scored("ben", rewards=(1.0,) + (0.0,) * 7)
    rng, draws = Random(5), 4_000
    first = Counter(informative([even, odd], 1, rng)[0].group.peer_id for _ in range(draws))
    assert first["anna"] / draws == pytest.approx(0.25 / (0.25 + 7 / 64), abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_balanced_takes_the_newest_rounds_first_then_tasks_and_peers_in_turn(seed: int) -> None:
    rounds = [make_scored("anna", slot, round_=round_) for round_ in (3, 5, 4) for slot in range(2)]
    assert [scored.group.round for scored in balanced(rounds, 5, Random(seed))] == [5, 5, 4, 4, 3]
    tasks = [make_scored("anna", slot, task="bf" if slot < 9 else "arc_1d") for slot in range(11)]
    for count, of_each in ((4, {"bf": 2, "arc_1d": 2}), (6, {"bf": 4, "arc_1d": 2})):
        chosen = balanced(tasks, count, Random(seed))
        assert Counter(scored.group.question.task for scored in chosen) == of_each
    peers = [make_scored(peer, slot) for peer in "abc" for slot in range(3)]
    assert {scored.group.peer_id for scored in balanced(peers, 3, Random(seed))} == set("abc")


# ── sums ────────────────────────────────────────────────────────────────────────────────────────────────────────────
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


@pytest.mark.parametrize(
    ("slots", "offered", "share", "taken"),
    [(2, 3, 0.5, 1.375), (5, 3, 0.5, 1.5), (1, 2, 0.25, 0.4375), (2, 3, 1.0, 2.0), (4, 3, 1.0, 3.0), (2, 3, 0.0, 0.0)],
)
def test_of_groups_that_are_informative_by_chance_as_many_are_expected_as_a_binomial_gives(
    slots: int, offered: int, share: float, taken: float
) -> None:
    assert expected_taken(slots, offered, share) == pytest.approx(taken)
