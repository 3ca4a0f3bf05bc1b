"""Adaptive I/J at a node: what a round asks, waits for, trains on and writes down, and what a restart makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import msgspec
import pytest

from swarm.algo.adaptive_rule import RoundSignals, RuleSettings
from swarm.algo.sampling import OwnRewards
from swarm.config import ADAPTIVE_RULES
from swarm.config.names import LITERAL_RULES
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.worker.steps import IJSchedule, signals_of
from swarm.types import RoundKey, ScoredGroup
from swarm.wire.codec import encode
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.unit.node.factories import UNIVERSE, FakePolicy, make_ghost, make_rollouts, make_row, make_settings, put
from tests.unit.node.nodes import make_worker, play_to_the_end, rollouts_of, rows_of, running, set_clock, until

pytestmark = pytest.mark.anyio

NEEDS_LAB = pytest.mark.skipif(not find_spec("swarm.plugins.lab"), reason="a rule of the plugin lab")
RULES_HERE = ADAPTIVE_RULES if find_spec("swarm.plugins.lab") else LITERAL_RULES
ROUNDS = 6
ADAPTIVE: dict[str, Any] = {"adaptive": True, "local_groups": 4, "external_groups": 4, "liveness_timeout": 60.0}


def of_eight(round_: int, **more: Any) -> MetricsRow:
    """Of a swarm of eight, whose pool gets better."""
    reward, pool = (round_ * 7 % 5) / 5, {"pool_groups": 28, "pool_informative": 5 + round_, "peers_heard": 7}
    own = {"my_reward": reward, "local_groups": 4, "zero_advantage_local": 0.75, "total_agents": 8}
    return make_row(round_, **own | pool | more)


def make_splits(tmp_path: Path, node: str = "alice", **settings: Any) -> IJSchedule:
    return IJSchedule(make_settings(tmp_path, **{**ADAPTIVE, **settings}), node)


# ── which split a round has ─────────────────────────────────────────────────────────────────────────────────────────
@NEEDS_LAB
@pytest.mark.parametrize("staleness", [0, 1])
def test_a_split_follows_from_the_rows_before_its_round_less_those_that_staleness_hides(
    tmp_path: Path, staleness: int
) -> None:
    schedule = make_splits(tmp_path, staleness=staleness, adaptive_rule="gradient-scaled")
    moved = [schedule.of(RoundKey(0)).continuous]
    for round_ in range(3):
        schedule.observe(of_eight(round_, my_reward=0.1 + 0.2 * round_))
        moved.append(schedule.of(RoundKey(round_ + 1)).continuous)
    assert moved == pytest.approx([4.0, 4.0, 4.8, 5.6] if not staleness else [4.0, 4.0, 4.0, 4.8])


@pytest.mark.parametrize("rule", RULES_HERE)
@pytest.mark.parametrize("staleness", [0, 1])
def test_replaying_the_rows_gives_the_same_splits(tmp_path: Path, rule: str, staleness: int) -> None:
    lived = make_splits(tmp_path, adaptive_rule=rule, staleness=staleness, adaptive_initial_j=3.6)
    schedule, rows = [lived.of(RoundKey(0))], []
    for round_ in range(25):
        rows.append(of_eight(round_, gradient_noise=2.0, gradient_bias=4.0 - 0.4 * round_))
        lived.observe(rows[-1])
        schedule.append(lived.of(RoundKey(round_ + 1)))
    for restart in (1, 7, 25):
        replayed = make_splits(tmp_path, adaptive_rule=rule, staleness=staleness, adaptive_initial_j=3.6)
        for row in rows[:restart]:
            replayed.observe(msgspec.json.decode(msgspec.json.encode(row), type=MetricsRow))
        assert replayed.of(RoundKey(restart)) == schedule[restart]


@NEEDS_LAB
def test_j_is_rounded_by_a_draw_of_seed_node_and_round(tmp_path: Path) -> None:
    kind: dict[str, Any] = {"adaptive_rule": "constant", "adaptive_initial_j": 3.6}
    anna, ben = (make_splits(tmp_path, node, **kind) for node in ("anna", "ben"))
    drawn = [[schedule.of(RoundKey(round_)).external for round_ in range(400)] for schedule in (anna, ben)]
    assert [fmean(of_node) for of_node in drawn] == pytest.approx([3.6, 3.6], abs=0.06)
    assert drawn[0] != drawn[1]
    assert drawn[0] == [make_splits(tmp_path, "anna", **kind).of(RoundKey(r)).external for r in range(400)]


def test_the_literal_gradient_rule_rounds_j_to_the_nearest_and_writes_down_what_it_rounded(tmp_path: Path) -> None:
    schedule = make_splits(tmp_path, adaptive_rule="gradient", adaptive_alpha=1.0, adaptive_initial_j=0.0)
    splits = []
    for round_, reward in enumerate((0.1, 0.5, 0.9, 0.9)):
        schedule.observe(of_eight(round_, my_reward=reward))
        splits.append(schedule.of(RoundKey(round_ + 1)))
    assert [split.external for split in splits] == [0, 0, 1, 2]
    assert [split.continuous for split in splits] == pytest.approx([0, 0.4, 1.18, 1.921])
    assert all(split.local + split.external == 8 for split in splits)


@pytest.mark.parametrize("rule", [*RULES_HERE, f"{__name__}:greedy"])
def test_no_rule_leaves_the_range_that_the_settings_allow(tmp_path: Path, rule: str) -> None:
    schedule = make_splits(tmp_path, adaptive_rule=rule, adaptive_min_j=2, adaptive_max_j=6, adaptive_alpha=1.0)
    drawn = []
    for round_ in range(60):
        drawn.append(schedule.of(RoundKey(round_)))
        schedule.observe(of_eight(round_, my_reward=round_ / 60, pool_informative=0))
    assert {split.local + split.external for split in drawn} == {8}
    assert {split.external for split in drawn} <= {2, 3, 4, 5, 6}


class Greedy:
    """A rule as a user might write one, which wants all there is."""

    baseline = None

    def wanted(self, rng: Random) -> float:
        return 100.0

    def observe(self, seen: RoundSignals) -> Greedy:
        return self


def greedy(settings: RuleSettings) -> Greedy:
    return Greedy()


def test_signals_count_informative_groups_whole() -> None:
    seen = signals_of(of_eight(0, local_groups=3, zero_advantage_local=1 / 3))
    assert (seen.local_groups, seen.local_informative, seen.pool_informative) == (3, 2, 5)


# ── a node that is adaptive ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("staleness", [0, 1])
async def test_lesson_the_adaptive_rule_moved_only_j_both_change_in_what_is_asked_published_and_trained_on(
    layout: Layout, staleness: int
) -> None:
    make_ghost(layout, "bob", rounds=ROUNDS)
    for round_ in range(ROUNDS):
        theirs = make_rollouts("bob", RoundKey(round_), groups=20, assigned=AssignedQuestions(3, UNIVERSE))
        put(layout.rollout_file(RoundKey(round_), "bob"), encode(theirs))
    policy = FakePolicy()
    worker = make_worker(layout, "alice", policy, adaptive_rule="random", staleness=staleness, seed=3, **ADAPTIVE)
    await play_to_the_end(layout, range(ROUNDS), worker)
    rows = rows_of(layout, "alice")
    assert len({row.adaptive_I for row in rows}) > 2
    for row, trained in zip(rows, policy.trained, strict=True):
        assert row.adaptive_I == row.local_groups == len(rollouts_of(layout, row.round, "alice").rollouts)
        assert row.adaptive_J == row.external_wanted == row.external_groups == row.adaptive_J_continuous
        assert row.adaptive_I + row.adaptive_J == 8
        assert sum(group.external for group in trained) == row.adaptive_J
        assert sum(not group.external for group in trained) == row.adaptive_I
        assert row.adaptive_round_reward == row.my_reward


@NEEDS_LAB
async def test_lesson_a_baseline_that_contained_the_rounds_own_reward_is_that_of_the_rounds_before(
    layout: Layout,
) -> None:
    worker = make_worker(layout, "alice", adaptive_rule="gradient-scaled", adaptive_baseline_alpha=1.0, **ADAPTIVE)
    await play_to_the_end(layout, range(4), worker)
    rows = rows_of(layout, "alice")
    assert rows[0].adaptive_baseline is msgspec.UNSET
    for row in rows[1:]:
        assert row.adaptive_baseline == pytest.approx(fmean(before.my_reward for before in rows[: row.round]))


async def test_without_adaptive_a_row_has_no_adaptive_column(layout: Layout) -> None:
    await play_to_the_end(layout, range(1), make_worker(layout, "alice"))
    assert b"adaptive" not in layout.metrics_file("alice").read_bytes()


@NEEDS_LAB
async def test_a_constant_j_of_whole_groups_is_the_fixed_run_to_the_bit(tmp_path: Path) -> None:
    """Adaptive and fixed runs once differed in how they waited; here they differ in nothing."""
    published, trained_on = [], []
    for name, settings in {
        "fixed": {"local_groups": 4, "external_groups": 4},
        "adaptive": {**ADAPTIVE, "local_groups": 8, "external_groups": 0, "adaptive_rule": "constant"},
    }.items():
        layout = Layout(tmp_path / name, "exp")
        make_ghost(layout, "bob", rounds=4)
        await play_to_the_end(layout, range(4), make_worker(layout, "alice", **{"liveness_timeout": 60.0, **settings}))
        published.append([rollouts_of(layout, round_, "alice").rollouts for round_ in range(4)])
        trained_on.append([(row.local_groups, row.external_groups) for row in rows_of(layout, "alice")])
    assert published[0] == published[1]
    assert trained_on[0] == trained_on[1]


@NEEDS_LAB
async def test_lesson_waiting_that_differed_a_round_without_external_groups_waits_for_peers_as_any(
    layout: Layout,
) -> None:
    make_ghost(layout, "bob")
    policy = FakePolicy()
    kind: dict[str, Any] = {**ADAPTIVE, "adaptive_rule": "constant", "adaptive_initial_j": 0.0}
    async with running(make_worker(layout, "alice", policy, **kind)):
        await set_clock(layout, 0)
        await until(lambda: policy.begun)
        assert not policy.trained
        put(layout.rollout_file(RoundKey(0), "bob"), encode(make_rollouts("bob", RoundKey(0))))
        await until(lambda: rows_of(layout, "alice"))
    row = rows_of(layout, "alice")[0]
    assert (row.adaptive_J, row.external_groups, row.peers_heard, row.pool_groups) == (0, 0, 1, 2)
    assert not row.gather_timed_out


# ── rules and samplers of one's own ─────────────────────────────────────────────────────────────────────────────────
def last(groups: Sequence[ScoredGroup], count: int, rng: Random, rewards: Mapping[str, float]) -> list[ScoredGroup]:
    """A sampler as a user might write one, which asks what the node's own questions earned."""
    TOLD.append(dict(rewards))
    return list(groups)[len(groups) - count :]


last.by_rewards = True  # type: ignore[attr-defined]
TOLD: list[dict[str, float]] = []


async def test_a_sampler_of_ones_own_chooses_and_is_told_what_the_own_questions_earned_also_after_a_restart(
    layout: Layout,
) -> None:
    TOLD.clear()
    make_ghost(layout, "bob", rounds=4)
    put(layout.rollout_file(RoundKey(0), "bob"), encode(make_rollouts("bob", RoundKey(0), groups=6, size=8)))
    policy = FakePolicy()
    kind: dict[str, Any] = {"external_groups": 2, "sampler": f"{__name__}:last", "liveness_timeout": 60.0}
    await play_to_the_end(layout, range(2), make_worker(layout, "alice", policy, **kind))
    await play_to_the_end(layout, range(2, 4), make_worker(layout, "alice", **kind))
    entries = rollouts_of(layout, 0, "bob").rollouts
    external = [group.prompt for group in policy.trained[0] if group.external]
    assert external == [entries[slot][0].prompt for slot in sorted(entries)][-2:]
    own, expected = OwnRewards(), []
    for row in rows_of(layout, "alice"):
        expected.append(own.means)
        own.observe(row.task_rewards)
    assert expected == TOLD
    assert len(TOLD) == 4
    assert TOLD[-1]
