"""What becomes a metrics row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from swarm.algo.adaptive_rule import Split
from swarm.algo.advantages import std
from swarm.algo.drawing import EMPTY, DrawnSample
from swarm.node.round import to_train
from swarm.node.worker.events import Train
from swarm.node.worker.row import mean, mean_rewards, metrics_row
from swarm.node.worker.steps import External, OpenedRound, Own, PlayedRound, Sampled, Updated
from swarm.store.health import Room
from swarm.types import (
    Completion,
    GradientEstimate,
    Likeliness,
    MemoryUse,
    Origin,
    Question,
    RolloutGroup,
    RoundKey,
    ScoredGroup,
    TrainReport,
)


def make_scored(
    *rewards: float,
    peer: str = "alice",
    task: str = "bf",
    round_: int = 3,
    model: str = "tiny",
    finished: bool = True,
    tagged: tuple[bool, ...] | None = None,
) -> ScoredGroup:
    """One group; unless said otherwise, what earned something is tagged."""
    question = Question("1 + 1?", Origin(task, "tiny", 1, 0, "fake"))
    completions = tuple(Completion(str(reward), finished, token_ids=(1, 2, 3)) for reward in rewards)
    group = RolloutGroup(peer, round_, 0, 0, question, completions, model)
    return ScoredGroup(group, rewards, tuple(reward > 0 for reward in rewards) if tagged is None else tagged)


def make_row(
    own: Sequence[ScoredGroup] = (),
    external: Sequence[ScoredGroup] = (),
    sample: DrawnSample = EMPTY,
    gathered: Train | None = None,
    updated: Updated | None = None,
    before: float = 0.0,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """By column, of a round that was played so."""
    played = PlayedRound(
        OpenedRound(RoundKey(3), Split(2, 4, 4.0), started=2.0, before=before),
        Own(Sampled(RoundKey(3), [scored.group for scored in own], 0), own),
        drawn=External(external, sample),
        gathered=gathered,
        updated=updated or Updated(),
        seconds=seconds or {},
        measured=own,
    )
    row = metrics_row(played, timestamp=1.0, node_id="alice", experiment="exp", total_agents=3, model="tiny")
    return {name: getattr(row, name) for name in row.__struct_fields__}


def report(**more: Any) -> Updated:
    return Updated(TrainReport(loss=0.25, grad_norm=2.0, tokens=9, trained_tokens=7, **more))


def test_my_reward_is_the_mean_per_completion_over_all_own_questions() -> None:
    row = make_row([make_scored(1.0, 0.0, 0.5, 0.5), make_scored(0.0, 0.0, task="arc_1d")])
    assert row["my_reward"] == pytest.approx(2 / 6)
    assert row["task_rewards"] == {"arc_1d": 0.0, "bf": 0.5}
    assert row["zero_advantage_local"] == 0.5
    assert row["local_groups"] == 2
    assert row["tokens_generated"] == 18


def test_a_floor_that_a_task_gives_for_nothing_is_no_right_answer() -> None:
    """Reward 0.01 for "no answer" was once counted as learning."""
    row = make_row(own=[make_scored(0.01, 0.01, 0.01, 1.0)])
    assert row["full_answer_rate"] == 0.25


TAGGED: dict[str, tuple[list[ScoredGroup], object, float, dict[str, float]]] = {
    "each completion counts once": (
        [make_scored(1.0, 0.0, 0.0, 0.0, tagged=(True, True, False, False)), make_scored(1.0, 0.5, task="sums")],
        *(2.5 / 4, 4 / 6, {"bf": 0.5, "sums": 1.0}),
    ),
    "groups of a task are pooled and not averaged: a fifth of all answers is right, and not half": (
        [make_scored(1.0, 0.0, 0.0, 0.0), make_scored(0.0, 0.0, 0.0, 0.0, tagged=(True,) * 4)],
        *(0.2, 5 / 8, {"bf": 5 / 8}),
    ),
    "a task without one has a rate of zero and no reward": (
        [make_scored(1.0, 0.0), make_scored(0.0, 0.0, task="sums")],
        *(1.0, 1 / 4, {"bf": 0.5, "sums": 0.0}),
    ),
    "nobody": ([make_scored(0.0, 0.0)], UNSET, 0.0, {"bf": 0.0}),
}
"""Own groups -> the reward of what is tagged, the share of that, and the share by task."""


@pytest.mark.parametrize(("own", "reward", "rate", "rates"), TAGGED.values(), ids=TAGGED)
def test_rewards_given_tagged_leave_out_what_has_no_answer(
    own: list[ScoredGroup], reward: object, rate: float, rates: dict[str, float]
) -> None:
    row = make_row(own=own)
    assert row["reward_given_tagged"] == (reward if reward is UNSET else pytest.approx(reward))
    assert row["answer_tag_rate"] == pytest.approx(rate)
    assert row["task_tag_rates"] == pytest.approx(rates)


@given(st.lists(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=8), min_size=1, max_size=4))
def test_the_reward_is_the_tag_rate_times_the_reward_given_tagged(groups: list[list[float | None]]) -> None:
    """None: a completion without a closed answer, which earns 0 in every family."""
    own = [make_scored(*(x or 0.0 for x in one), tagged=tuple(x is not None for x in one)) for one in groups]
    row = make_row(own)
    if row["reward_given_tagged"] is UNSET:
        assert row["answer_tag_rate"] == row["my_reward"] == 0.0
    else:
        assert row["answer_tag_rate"] * row["reward_given_tagged"] == pytest.approx(row["my_reward"])


def test_external_groups_count_in_the_trained_mean_and_not_in_the_own() -> None:
    row = make_row([make_scored(0.0, 0.0)], [make_scored(1.0, 1.0, peer="bob", model="gpt2")])
    assert (row["my_reward"], row["train_reward"]) == (0.0, 0.5)
    assert (row["external_by_peer"], row["external_by_model"]) == ({"bob": 1}, {"gpt2": 1})


def test_the_pool_is_counted_before_and_after_the_filter() -> None:
    pool = [make_scored(1.0, 0.0, peer="bob"), make_scored(0.0, 0.0, peer="bob"), make_scored(1.0, 1.0, peer="carol")]
    sample = DrawnSample(pool, slots=3, of=3, enough=False)
    gathered = Train(RoundKey(3), frozenset({"bob", "carol"}), frozenset({"bob"}), timed_out=False, late=False)
    row = make_row(sample=sample, gathered=gathered)
    assert (row["pool_groups"], row["pool_informative"]) == (3, 1)
    assert (row["peers_heard"], row["peers_awaited"]) == (2, 1)


def test_staleness_is_how_many_rounds_old_the_external_groups_were() -> None:
    external = [make_scored(1.0, 0.0, round_=3), make_scored(1.0, 0.0, round_=1)]
    assert make_row(external=external)["staleness"] == 1.0


def test_a_round_without_anything_is_all_zeros() -> None:
    row = make_row()
    assert (row["my_reward"], row["train_reward"], row["finished_rate"], row["loss"]) == (0.0, 0.0, 0.0, 0.0)
    assert mean([]) == 0.0


def test_the_trainers_report_and_the_times_of_the_steps_are_columns() -> None:
    row = make_row(updated=report(updated=False), before=0.5, seconds={"generate": 2.0})
    assert (row["loss"], row["grad_norm"], row["tokens_trained"], row["updated"]) == (0.25, 2.0, 7, False)
    assert (row["seconds_generate"], row["seconds_wait"]) == (2.0, 1.5)


EXTERNAL = [make_scored(1.0, 0.0, peer=peer) for peer in ("bob", "carol", "bob", "dan")]


def test_how_likely_the_policy_was_to_write_what_it_took_is_a_column_by_peer() -> None:
    found = tuple(Likeliness(*one) for one in ((-4.0, 4), (-9.0, 1), (-8.0, 4), (0.0, 0)))
    row = make_row(external=EXTERNAL, updated=report(external_likeliness=found))
    assert row["logprobs_by_peer"] == {"bob": -1.5, "carol": -9.0}
    assert make_row(external=EXTERNAL)["logprobs_by_peer"] is UNSET


def test_what_the_gradients_parts_say_is_in_columns_as_far_as_it_is_known() -> None:
    gradient = GradientEstimate(square=-0.5, noise=2.0, alignment=math.inf, bias=None)
    alignment = (1.0, -2.0, 4.0, math.nan)
    row = make_row(external=EXTERNAL, updated=report(gradient=gradient, external_alignment=alignment))
    assert (row["gradient_square"], row["gradient_noise"]) == (-0.5, 2.0)
    assert row["gradient_alignment"] is row["gradient_bias"] is UNSET, "JSON has no infinity"
    assert row["gradient_alignment_by_peer"] == {"bob": 2.5, "carol": -2.0}
    assert make_row(external=EXTERNAL, updated=report())["gradient_square"] is UNSET


def test_how_full_device_and_disk_are_is_a_column_where_it_is_known() -> None:
    row = make_row()
    assert row["memory_total"] is row["disk_used"] is UNSET
    memory, room = MemoryUse(allocated=3, peak=4, total=10**15, free=10), Room(free=25, inodes=None, total=100)
    row = make_row(updated=Updated(None, memory, room))
    assert (row["memory_allocated"], row["memory_peak"], row["memory_free"]) == (3, 4, 10)
    assert row["memory_total"] == 10**12, "the largest that readers take"
    assert row["memory_reserved"] is UNSET
    assert (row["disk_free"], row["disk_used"]) == (25, 0.75)


def test_what_is_trained_on_carries_the_groups_own_advantages() -> None:
    (trained,) = to_train([make_scored(1.0, 0.0)], external=True, scaling=std)
    assert trained.advantages == (1.0, -1.0)
    assert trained.external
    assert trained.prompt == "1 + 1?"


def test_peers_are_compared_by_their_mean_over_all_their_groups() -> None:
    groups = [make_scored(1.0, 0.0), make_scored(0.0, 0.0, 0.0, 0.0), make_scored(0.5, 0.5, peer="bob")]
    assert mean_rewards(groups) == {"alice": pytest.approx(1 / 6), "bob": 0.5}
