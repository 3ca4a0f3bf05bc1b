"""The supply rule: it finds the split whose gradient is best for a swarm of its kind, and stays there."""

from __future__ import annotations

from itertools import pairwise
from math import comb
from random import Random
from statistics import fmean, pstdev

import pytest

from swarm.algo.adaptive_rule import Rule, Split, rounded_split
from swarm.plugins.lab.supply_rule import ENOUGH_ROUNDS, SHARED_BIAS
from tests.unit.algo.factories import make_rule, make_seen

NODES, TOTAL = 8, 8


def simulate(success: float, rounds: int, initial_j: float, seed: int, rule: str = "supply") -> list[list[Split]]:
    """A swarm whose own questions are informative with one probability; the splits of every round."""
    rng = Random(seed)
    rules: list[Rule] = [make_rule(rule, initial_j=initial_j) for _ in range(NODES)]
    played = []
    for round_ in range(rounds):
        splits = [rounded_split(TOTAL, rule.wanted(rng), rng) for rule in rules]
        hits = [sum(rng.random() < success for _ in range(split.local)) for split in splits]
        made = sum(split.local for split in splits)
        for node, (split, hit) in enumerate(zip(splits, hits, strict=True)):
            seen = make_seen(
                round_,
                local_groups=split.local,
                local_informative=hit,
                peers=NODES - 1,
                pool_groups=made - split.local,
                pool_informative=sum(hits) - hit,
            )
            rules[node] = rules[node].observe(seen)
        played.append(splits)
    return played


def mean_j(splits: list[Split]) -> float:
    return fmean(split.continuous for split in splits)


def mean_taken(slots: int, offered: int, share: float) -> float:
    """E[min(slots, X)], from the definition of the binomial distribution."""
    odds = [comb(offered, k) * share**k * (1 - share) ** (offered - k) for k in range(offered + 1)]
    return sum(p * min(slots, k) for k, p in enumerate(odds))


def best_j(success: float) -> int:
    """The J of least error for eight nodes alike, worked out anew."""

    def error(j: int) -> float:
        shared = mean_taken(j, (NODES - 1) * (TOTAL - j), success)
        trained_on = success * (TOTAL - j) + shared
        return 1 / trained_on + SHARED_BIAS * (shared / trained_on) ** 2

    return min(range(TOTAL), key=error)


def wanted_at(success: float, peers: int = NODES - 1) -> float:
    """What a node wants that has seen long enough what share of groups is informative, at home and in the pool."""
    asked = 4000
    seen = make_seen(
        local_groups=asked,
        local_informative=round(asked * success),
        peers=peers,
        pool_groups=asked,
        pool_informative=round(asked * success),
    )
    return make_rule("supply").observe(seen).wanted(Random(0))


def test_a_node_wants_the_split_of_least_error() -> None:
    for success in (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9):
        assert wanted_at(success) == best_j(success), success


def test_a_smaller_swarm_asks_more_itself() -> None:
    assert all(more >= fewer for more, fewer in pairwise(wanted_at(0.2, peers) for peers in (7, 3, 1, 0)))
    assert wanted_at(0.2, peers=7) > wanted_at(0.2, peers=1) > 0


@pytest.mark.parametrize(("success", "initial_j"), [(0.05, 7.0), (0.3, 0.0), (0.6, 4.0)])
def test_a_swarm_finds_its_fixed_point_from_anywhere_and_stays_there(success: float, initial_j: float) -> None:
    path = [mean_j(splits) for splits in simulate(success, 120, initial_j, seed=5)]
    settled = path[40:]
    assert fmean(settled) == pytest.approx(best_j(success), abs=1)
    assert pstdev(settled) < 0.7, "what is left is the noise of the averages"


def test_while_rewards_are_rare_the_swarm_trains_on_as_much_as_with_the_best_fixed_split() -> None:
    success = 0.02

    def trained_on(rule: str, j: float) -> float:
        rng, played = Random(1), simulate(success, 600, j, seed=2, rule=rule)[100:]
        found = 0.0
        for splits in played:
            hits = [sum(rng.random() < success for _ in range(split.local)) for split in splits]
            found += sum(h + min(s.external, sum(hits) - h) for h, s in zip(hits, splits, strict=True))
        return found / len(played) / NODES

    supply = trained_on("supply", 4.0)
    fixed = {j: trained_on("constant", float(j)) for j in range(TOTAL)}
    assert supply > 0.9 * max(fixed.values()), f"{supply} against {fixed}"
    assert supply > 1.2 * fixed[4]
    assert supply > 2 * fixed[0]


def test_a_free_rider_does_not_come_of_a_rich_pool() -> None:
    """14 informative groups would fill all slots; but they are there because the peers ask themselves 8 questions."""
    rule = make_rule("supply").observe(
        make_seen(local_groups=4, local_informative=1, pool_groups=56, pool_informative=14)
    )
    assert rule.wanted(Random(0)) == best_j(0.25) < 7


def test_slots_that_the_pool_cannot_fill_are_not_asked_for() -> None:
    """Peers that ask one question each, as their settings say."""
    seen = make_seen(local_groups=4, local_informative=1, peers=7, pool_groups=7, pool_informative=2)
    assert make_rule("supply").observe(seen).wanted(Random(0)) <= 3


def test_without_peers_all_questions_are_ones_own() -> None:
    rule = make_rule("supply").observe(make_seen(peers=0, pool_groups=0, pool_informative=0))
    assert rule.wanted(Random(0)) == 0


def test_before_anybody_earned_anything_the_swarm_asks() -> None:
    rule = make_rule("supply")
    for round_ in range(10):
        rule = rule.observe(make_seen(round_, local_informative=0, pool_informative=0))
    assert rule.wanted(Random(0)) == 1


def test_the_averages_follow_a_supply_that_changes() -> None:
    rule = make_rule("supply")

    def after(rounds: int, informative: int) -> float:
        nonlocal rule
        for round_ in range(rounds):
            seen = make_seen(round_, local_groups=40, local_informative=5, pool_groups=56, pool_informative=informative)
            rule = rule.observe(seen)
        return rule.wanted(Random(0))

    assert after(50, 1) < after(60, 21)


# ── the bias as it was measured ─────────────────────────────────────────────────────────────────────────────────────
def measured_after(bias: float | None, noise: float | None = 2.0, rounds: int = 20, success: float = 0.4) -> float:
    """What a node wants after rounds of one kind, each with an estimate, or None."""
    rule = make_rule("supply-measured")
    for round_ in range(rounds):
        seen = make_seen(
            round_,
            local_groups=4000,
            local_informative=round(4000 * success),
            pool_groups=4000,
            pool_informative=round(4000 * success),
            gradient_bias=bias,
            gradient_noise=noise,
        )
        rule = rule.observe(seen)
    return rule.wanted(Random(0))


def test_a_measured_bias_of_the_size_that_supply_assumes_changes_nothing() -> None:
    assert [measured_after(2.0 * SHARED_BIAS, success=p) for p in (0.02, 0.2, 0.4, 0.7)] == [
        wanted_at(p) for p in (0.02, 0.2, 0.4, 0.7)
    ]


def test_the_less_peers_pull_away_the_more_of_them_is_learned() -> None:
    wanted = [measured_after(bias) for bias in (8.0, 1.0, 0.2, 0.0)]
    assert wanted == sorted(wanted)
    assert wanted[0] == 0 < wanted[1] < wanted[-1]


def test_an_estimate_below_zero_is_no_bias() -> None:
    assert measured_after(-0.5) == measured_after(0.0)


def test_until_enough_rounds_have_an_estimate_the_rule_is_supply() -> None:
    assert measured_after(8.0, rounds=ENOUGH_ROUNDS - 1) == wanted_at(0.4) != measured_after(8.0, rounds=ENOUGH_ROUNDS)
    assert measured_after(None, None) == wanted_at(0.4), "no round had groups enough"


def test_gradients_without_any_spread_say_nothing() -> None:
    assert measured_after(1.0, noise=0.0) == wanted_at(0.4)
