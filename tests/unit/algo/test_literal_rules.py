"""reward-trend, gradient and multi-signal against their source, formula by formula.

Source: docs/ADAPTIVE_IJ_ALGORITHM.md of github.com/Elrashid/rl-swarm. `source_*` compute J from all rounds at once, as
the source's formulas read; the rules compute it round by round.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swarm.algo.adaptive_rule import RoundSignals
from swarm.config.names import LITERAL_RULES
from tests.unit.algo.factories import j_of, make_rule, make_seen, path_of, rewarded

ROUNDS = 45


def windows(*means: float) -> list[float]:
    """Ten rounds of each."""
    return [mean for mean in means for _ in range(10)]


def clipped(j: float, low: float = 0.0, high: float = 7.0) -> float:
    return max(low, min(high, j))


rewards_of_a_run = st.lists(st.floats(0, 1), min_size=1, max_size=ROUNDS)


# ── version 1, reward-trend ─────────────────────────────────────────────────────────────────────────────────────────
def source_reward_trend(rewards: Sequence[float], j: float = 4.0) -> list[float]:
    path = []
    for n in range(1, len(rewards) + 1):
        if n > 10:
            recent, previous = fmean(rewards[n - 10 : n]), fmean(rewards[max(0, n - 20) : n - 10])
            improvement = (recent - previous) / (previous + 1e-8)
            j = clipped(j - 1 if improvement > 0.05 else j + 1 if improvement < -0.05 else j)
        path.append(j)
    return path


@given(rewards_of_a_run)
def test_reward_trend_is_its_source_round_by_round(rewards: list[float]) -> None:
    assert path_of(make_rule("reward-trend"), rewarded(*rewards)) == source_reward_trend(rewards)


@pytest.mark.parametrize(("after", "j"), [(0.526, 3.0), (0.524, 4.0), (0.476, 4.0), (0.474, 5.0)])
def test_reward_trend_acts_on_changes_of_more_than_five_per_cent(after: float, j: float) -> None:
    before = windows(0.5)
    steps = rewarded(*before, *[0.5] * 9, 10 * after - 9 * 0.5)  # the recent mean of the last round alone is `after`
    path = path_of(make_rule("reward-trend"), steps)
    assert path[-2:] == [4.0, j]


# ── version 2, gradient ─────────────────────────────────────────────────────────────────────────────────────────────
def source_gradient(
    rewards: Sequence[float], alpha: float, memory: float, j: float = 4.0, low: float = 0.0, high: float = 7.0
) -> list[float]:
    """J += alpha (r - b), b being the exponential moving average of the rounds before."""
    path, b = [], rewards[0]
    for r in rewards:
        j = clipped(j + alpha * (r - b), low, high)
        b = memory * b + (1 - memory) * r
        path.append(j)
    return path


@given(rewards_of_a_run, st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 7))
def test_gradient_is_its_source_round_by_round(rewards: list[float], alpha: float, memory: float, j: float) -> None:
    rule = make_rule("gradient", alpha=alpha, memory=memory, initial_j=j)
    assert path_of(rule, rewarded(*rewards)) == pytest.approx(source_gradient(rewards, alpha, memory, j))


@given(rewards_of_a_run, st.floats(0, 1))
def test_lesson_a_baseline_that_contained_the_rounds_own_reward_never_does(rewards: list[float], own: float) -> None:
    """With it, J would move by alpha times memory times the difference."""
    rule = make_rule("gradient", alpha=0.5, memory=0.5, total=100, initial_j=50.0)
    for seen in rewarded(*rewards):
        rule = rule.observe(seen)
    assert rule.baseline is not None
    moved = j_of(rule.observe(make_seen(9, own))) - j_of(rule)
    assert moved == pytest.approx(0.5 * (own - rule.baseline), abs=1e-9)


# ── version 3, multi-signal ─────────────────────────────────────────────────────────────────────────────────────────
def source_trend(history: Sequence[float]) -> float:
    if len(history) < 20:
        return 0.0
    recent, previous = fmean(history[-10:]), fmean(history[-20:-10])
    return (recent - previous) / (abs(previous) + 1e-8)


def source_multi_signal(rounds: Sequence[RoundSignals], j: float = 4.0) -> list[float]:
    path = []
    for n in range(1, len(rounds) + 1):
        past = rounds[:n]
        reward, variance = source_trend([r.reward for r in past]), source_trend([r.reward_std**2 for r in past])
        shares = [r.pool_informative / r.pool_groups if r.pool_groups else 0.0 for r in past]
        quality = fmean(shares[-10:]) if n >= 10 else 0.5
        if reward > 0.05 and variance < 0:
            j -= 1
        elif reward < -0.05 or variance > 0.1:
            j += 1 if quality > 0.3 else 0
        elif quality < 0.2:
            j -= 1
        j = clipped(j)
        path.append(j)
    return path


@st.composite
def runs(draw: st.DrawFn) -> list[RoundSignals]:
    """Rounds in stretches, so that all branches of the rule are met."""
    rounds: list[RoundSignals] = []
    for _ in range(draw(st.integers(1, 4))):
        seen = {
            "reward": draw(st.sampled_from([0.0, 0.2, 0.21, 0.4])),
            "reward_std": draw(st.sampled_from([0.0, 0.1, 0.103, 0.3])),
            "pool_informative": draw(st.sampled_from([0, 5, 6, 8, 9, 28])),
            "pool_groups": draw(st.sampled_from([0, 28, 28])),
        }
        rounds += [make_seen(n, **seen) for n in range(draw(st.integers(1, 12)))]
    return rounds


@given(runs())
@example(rewarded(*windows(0.2, 0.4)))  # a variance that stays
@example([make_seen(n, reward=0.2 + 0.02 * n, reward_std=0.3 - 0.01 * n) for n in range(24)])  # one that falls
@example([make_seen(n, reward=0.2 + 0.02 * n, reward_std=0.1 + 0.01 * n, pool_informative=28) for n in range(24)])
def test_multi_signal_is_its_source_round_by_round(rounds: list[RoundSignals]) -> None:
    assert path_of(make_rule("multi-signal"), rounds) == source_multi_signal(rounds)


# ── all three ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", LITERAL_RULES)
@pytest.mark.parametrize("start", [0.0, 2.0, 6.0])
def test_any_start_within_the_range_is_one(name: str, start: float) -> None:
    rule = make_rule(name, initial_j=start, min_j=int(start > 0) * 2, max_j=6)
    path = path_of(rule, rewarded(*windows(0.4, 0.3, 0.2)))
    assert all((2 if start else 0) <= j <= 6 for j in [j_of(rule), *path])


@pytest.mark.parametrize(("name", "least"), [("reward-trend", 1), ("multi-signal", 10)])
@given(rewards=rewards_of_a_run)
@example(rewards=[0.01 * n for n in range(25)])
def test_the_baseline_of_a_trend_is_the_mean_that_the_next_round_is_held_against(
    name: str, least: int, rewards: list[float]
) -> None:
    rule = make_rule(name)
    for seen in rewarded(*rewards):
        rule = rule.observe(seen)
    earlier = [*rewards, 0.0][-20:-10]
    assert rule.baseline == (pytest.approx(fmean(earlier)) if len(earlier) >= least else None)
