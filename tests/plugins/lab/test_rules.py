"""Adaptive I/J: what every rule holds to, and how those that follow the reward move J."""

from __future__ import annotations

from itertools import pairwise
from math import comb
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.adaptive_rule import RoundSignals, Rule, Split, rounded_split
from swarm.algo.registry import RULES
from swarm.config import ADAPTIVE_RULES
from swarm.config.names import SCALED_RULES
from swarm.entry_points import bundled
from swarm.plugins.lab.scaled_rules import QUALITY_WEIGHT, TREND_WEIGHT, TREND_WINDOW, VARIANCE_WEIGHT
from swarm.plugins.lab.supply_rule import ENOUGH_ROUNDS, SHARED_BIAS
from tests.unit.algo.factories import j_of, make_rule, make_seen, path_of, rewarded


@st.composite
def rounds_of_any_kind(draw: st.DrawFn) -> list[RoundSignals]:
    rounds = []
    for number in range(draw(st.integers(0, 30))):
        own, pool = draw(st.integers(0, 8)), draw(st.integers(0, 56))
        rounds.append(
            make_seen(
                number,
                draw(st.floats(0, 1)),
                local_groups=own,
                local_informative=draw(st.integers(0, own)),
                peers=draw(st.integers(0, 7)),
                pool_groups=pool,
                pool_informative=draw(st.integers(0, pool)),
                pool_reward=draw(st.floats(0, 1)),
                reward_std=draw(st.floats(0, 0.5)),
            )
        )
    return rounds


# ── every rule ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_names_of_the_settings_are_those_of_the_rules() -> None:
    assert set(ADAPTIVE_RULES) == {*RULES, *bundled("swarm.rules")}


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, Any]:
    """N, the ends of the allowed range and a J within, as the settings may have them."""
    total = draw(st.integers(2, 12))
    low = draw(st.integers(0, total - 1))
    high = draw(st.integers(low, total - 1))
    return {"total": total, "min_j": low, "max_j": high, "initial_j": draw(st.floats(low, high))}


@given(st.sampled_from(ADAPTIVE_RULES), rounds_of_any_kind(), bounds(), st.floats(0.01, 1), st.integers(0, 99))
def test_lesson_the_adaptive_rule_moved_only_j_i_and_j_add_up_whatever_was_seen(
    name: str, rounds: list[RoundSignals], kind: dict[str, Any], alpha: float, seed: int
) -> None:
    rule = make_rule(name, alpha=alpha, **kind)
    for seen in rounds:
        rule = rule.observe(seen)
        rng = Random(seed)
        wanted = rule.wanted(rng)
        assert kind["min_j"] <= wanted <= kind["max_j"]
        for split in (rounded_split(kind["total"], wanted, how) for how in (rng, None)):
            assert split.local + split.external == kind["total"]
            assert split.local >= 1
            assert kind["min_j"] <= split.external <= kind["max_j"]


@pytest.mark.parametrize("name", [name for name in ADAPTIVE_RULES if name != "random"])
def test_before_the_first_round_j_is_what_the_settings_say(name: str) -> None:
    assert j_of(make_rule(name, initial_j=2.5)) == 2.5


# ── the controls ────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("low", "high"), [(0, 7), (2, 6)])
def test_a_random_split_is_uniform_over_all_splits(low: int, high: int) -> None:
    rng, rule = Random(3), make_rule("random", min_j=low, max_j=high)
    splits = high - low + 1
    drawn = [rule.wanted(rng) for _ in range(1_000 * splits)]
    assert set(drawn) == set(map(float, range(low, high + 1)))
    assert all(900 < drawn.count(float(j)) < 1_100 for j in range(low, high + 1))


# ── scaled rules ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_lesson_a_baseline_that_contained_the_rounds_own_reward_holds_the_rounds_before_only() -> None:
    rule = make_rule("gradient-scaled", memory=0.5)
    assert rule.baseline is None
    rule = rule.observe(make_seen(0, 0.2))
    assert rule.baseline == 0.2
    assert j_of(rule) == 4.0, "a first reward is better or worse than nothing"
    for reward, before in ((0.4, 0.2), (0.1, 0.3), (0.8, 0.2)):
        assert rule.baseline == pytest.approx(before)
        rule = rule.observe(make_seen(1, reward))


@pytest.mark.parametrize("memory", [0.0, 0.95, 1.0])
def test_a_round_is_held_against_others_whatever_the_memory(memory: float) -> None:
    """With its own reward in the baseline and no memory, the difference was 0 in every round."""
    rule = make_rule("gradient-scaled", memory=memory)
    assert path_of(rule, rewarded(0.2, 0.4)) == pytest.approx([4.0, 4.8])


def test_the_gradient_rule_moves_by_at_most_alpha_n_and_by_less_for_less() -> None:
    path = path_of(make_rule("gradient-scaled", memory=1.0), rewarded(0.2, 0.4, 0.3 + 0.05))
    # the second round's deviation is the only one: a whole step; the third is 0.05 over a baseline of 0.3, spread 0.125
    assert path == pytest.approx([4.0, 4.8, 4.8 + 0.8 * 0.05 / 0.125])


rewards_in_a_row = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


@given(st.sampled_from(SCALED_RULES), rewards_in_a_row)
def test_rewards_ten_times_as_large_move_j_no_further(name: str, thousandths: list[int]) -> None:
    small, large = (
        [make_seen(n, t * unit, pool_reward=500 * unit) for n, t in enumerate(thousandths)] for unit in (1e-4, 1e-3)
    )
    assert path_of(make_rule(name), small) == pytest.approx(path_of(make_rule(name), large), abs=1e-6)


@given(st.sampled_from(("reward-trend-scaled", "gradient-scaled")), st.floats(0, 1), st.integers(2, 4))
def test_rewards_that_do_not_differ_move_nothing_in_the_end(name: str, reward: float, windows: int) -> None:
    rounds = rewarded(*[reward] * (windows * TREND_WINDOW))
    path = path_of(make_rule(name), rounds)
    assert path[-1] == pytest.approx(path[TREND_WINDOW])


def windows(*means: float) -> list[RoundSignals]:
    return rewarded(*[mean for mean in means for _ in range(TREND_WINDOW)])


def moves(name: str, *means: float) -> list[float]:
    """The moves at the ends of these windows."""
    path = path_of(make_rule(name, total=40, initial_j=20.0), windows(*means))
    ends = [20.0, *path[TREND_WINDOW - 1 :: TREND_WINDOW]]
    return [after - before for before, after in pairwise(ends)]


def test_the_trend_rule_goes_on_while_the_reward_rises_and_turns_round_when_it_falls() -> None:
    signs = [move > 0 for move in moves("reward-trend-scaled", 0.1, 0.2, 0.3, 0.2, 0.3, 0.2)]
    assert signs == [True, True, True, False, False, True]


def test_the_trend_rule_moves_further_for_a_larger_difference() -> None:
    first, second, third = moves("reward-trend-scaled", 0.1, 0.5, 0.55)
    assert first == second == pytest.approx(4.0)
    assert 0 < third < 2


def test_the_trend_rule_judges_windows_and_not_single_rounds() -> None:
    path = path_of(make_rule("reward-trend-scaled"), windows(0.1, 0.2))
    assert len(set(path)) == 3, "before, after the first window, after the second"


# ── several signals ─────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("seen", "move"),
    [
        ({"local_informative": 0}, VARIANCE_WEIGHT),  # own groups that teach nothing
        ({"local_informative": 2}, 0),
        ({"local_informative": 4}, -VARIANCE_WEIGHT),
        ({"reward": 0.0, "pool_reward": 0.4}, QUALITY_WEIGHT),  # peers that answer better
        ({"reward": 0.4, "pool_reward": 0.2}, -QUALITY_WEIGHT / 2),
        ({"reward": 0.4, "pool_reward": 0.0, "pool_groups": 0}, 0),  # nobody there says nothing
    ],
)
def test_groups_that_teach_nothing_and_peers_that_answer_better_ask_for_more(seen: dict[str, Any], move: float) -> None:
    after = make_rule("multi-signal-scaled").observe(make_seen(0, **seen))
    assert (j_of(after) - 4.0) / 0.8 == pytest.approx(move), "in units of the largest move there is"


def test_a_move_that_was_followed_by_a_better_reward_is_gone_on_with() -> None:
    def second_move(first: int) -> float:
        rule = make_rule("multi-signal-scaled").observe(make_seen(0, 0.2, local_informative=first))
        return j_of(rule.observe(make_seen(1, 0.4))) - j_of(rule)

    assert second_move(1) == pytest.approx(0.8 * TREND_WEIGHT)
    assert second_move(3) == pytest.approx(-0.8 * TREND_WEIGHT)


# ── the supply rule ─────────────────────────────────────────────────────────────────────────────────────────────────
NODES, TOTAL = 8, 8


def simulate(success: float, rounds: int, initial_j: float, seed: int) -> list[list[Split]]:
    """A swarm whose own questions are informative with one probability; the splits of every round."""
    rng = Random(seed)
    rules: list[Rule] = [make_rule("supply", initial_j=initial_j) for _ in range(NODES)]
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


def best_j(success: float, peers: int = NODES - 1) -> int:
    """The J of least error for nodes alike, worked out anew."""

    def error(j: int) -> float:
        shared = mean_taken(j, peers * (TOTAL - j), success)
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


@pytest.mark.parametrize("peers", [0, 1, 3, 7])
def test_a_node_wants_the_split_of_least_error_which_is_more_of_its_own_in_a_smaller_swarm(peers: int) -> None:
    for success in (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9):
        assert wanted_at(success, peers) == best_j(success, peers), success
    assert (wanted_at(0.2, peers) == 0) is (peers == 0)


def test_before_anybody_earned_anything_the_swarm_asks() -> None:
    rule = make_rule("supply")
    for round_ in range(10):
        rule = rule.observe(make_seen(round_, local_informative=0, pool_informative=0))
    assert rule.wanted(Random(0)) == 1
    alone = make_rule("supply").observe(make_seen(peers=0, pool_groups=0, pool_informative=0))
    assert alone.wanted(Random(0)) == 0, "without peers all questions are one's own"


@pytest.mark.parametrize(("success", "initial_j"), [(0.05, 7.0), (0.3, 0.0), (0.6, 4.0)])
def test_a_swarm_finds_its_fixed_point_from_anywhere_and_stays_there(success: float, initial_j: float) -> None:
    path = [mean_j(splits) for splits in simulate(success, 120, initial_j, seed=5)]
    settled = path[40:]
    assert fmean(settled) == pytest.approx(best_j(success), abs=1)
    assert pstdev(settled) < 0.7, "what is left is the noise of the averages"


def test_slots_that_the_pool_cannot_fill_are_not_asked_for() -> None:
    """Peers that ask one question each, as their settings say."""
    seen = make_seen(local_groups=4, local_informative=1, peers=7, pool_groups=7, pool_informative=2)
    assert make_rule("supply").observe(seen).wanted(Random(0)) <= 3


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
    assert wanted[0] == 0 < wanted[1] < wanted[-1] == measured_after(-0.5), "an estimate below zero is no bias"


def test_until_enough_rounds_have_an_estimate_the_rule_is_supply() -> None:
    assert measured_after(8.0, rounds=ENOUGH_ROUNDS - 1) == wanted_at(0.4) != measured_after(8.0, rounds=ENOUGH_ROUNDS)
    assert measured_after(None, None) == wanted_at(0.4), "no round had groups enough"
    assert measured_after(1.0, noise=0.0) == wanted_at(0.4), "gradients without any spread say nothing"
