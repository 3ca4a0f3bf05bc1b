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
from swarm.node.worker.row import mean_rewards, metrics_row
from swarm.node.worker.steps import External, OpenedRound, Own, PlayedRound, Sampled, Updated
from swarm.store.base import Room
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


EXTERNAL = [make_scored(1.0, 0.0, peer=peer) for peer in ("bob", "carol", "bob", "dan")]
POOL = [make_scored(1.0, 0.0, peer="bob"), make_scored(0.0, 0.0, peer="bob"), make_scored(1.0, 1.0, peer="carol")]
LIKELY = tuple(Likeliness(*one) for one in ((-4.0, 4), (-9.0, 1), (-8.0, 4), (0.0, 0)))
GRADIENT = GradientEstimate(square=-0.5, noise=2.0, alignment=math.inf, bias=None)
FULL = Updated(None, MemoryUse(allocated=3, peak=4, total=10**15, free=10), Room(free=25, inodes=None, total=100))
TOLD: dict[str, tuple[dict[str, Any], dict[str, object]]] = {
    "the reward is the mean per completion over all own questions": (
        {"own": [make_scored(1.0, 0.0, 0.5, 0.5), make_scored(0.0, 0.0, task="arc_1d")]},
        {"my_reward": pytest.approx(2 / 6), "task_rewards": {"arc_1d": 0.0, "bf": 0.5}, "zero_advantage_local": 0.5}
        | {"local_groups": 2, "tokens_generated": 18},
    ),
    "a floor that a task gives for nothing, once counted as learning, is no right answer": (
        {"own": [make_scored(0.01, 0.01, 0.01, 1.0)]},
        {"full_answer_rate": 0.25},
    ),
    "external groups count in the trained mean and not in the own": (
        {"own": [make_scored(0.0, 0.0)], "external": [make_scored(1.0, 1.0, peer="bob", model="gpt2")]},
        {"my_reward": 0.0, "train_reward": 0.5, "external_by_peer": {"bob": 1}, "external_by_model": {"gpt2": 1}},
    ),
    "the pool is counted before and after the filter": (
        {"sample": DrawnSample(POOL, slots=3, of=3, enough=False)},
        {"pool_groups": 3, "pool_informative": 1},
    ),
    "who was heard and awaited": (
        {"gathered": Train(RoundKey(3), frozenset({"bob", "carol"}), frozenset({"bob"}), timed_out=False, late=True)},
        {"peers_heard": 2, "peers_awaited": 1, "gather_timed_out": False, "late": True},
    ),
    "staleness is how many rounds old the external groups were": (
        {"external": [make_scored(1.0, 0.0, round_=3), make_scored(1.0, 0.0, round_=1)]},
        {"staleness": 1.0},
    ),
    "a round without anything is all zeros, and what nobody knows is unset": (
        {},
        dict.fromkeys(("my_reward", "train_reward", "finished_rate", "loss"), 0.0)
        | dict.fromkeys(("memory_total", "disk_used", "logprobs_by_peer", "gradient_square"), UNSET),
    ),
    "the trainer's report and the times of the steps": (
        {"updated": report(updated=False), "before": 0.5, "seconds": {"generate": 2.0}},
        {"loss": 0.25, "grad_norm": 2.0, "tokens_trained": 7, "updated": False, "gradient_square": UNSET}
        | {"seconds_generate": 2.0, "seconds_wait": 1.5},
    ),
    "how likely the policy was to write what it took of each peer": (
        {"external": EXTERNAL, "updated": report(external_likeliness=LIKELY)},
        {"logprobs_by_peer": {"bob": -1.5, "carol": -9.0}},
    ),
    "what the gradient's parts say, as far as it is known and finite": (
        {"external": EXTERNAL} | {"updated": report(gradient=GRADIENT, external_alignment=(1.0, -2.0, 4.0, math.nan))},
        {"gradient_square": -0.5, "gradient_noise": 2.0, "gradient_alignment": UNSET, "gradient_bias": UNSET}
        | {"gradient_alignment_by_peer": {"bob": 2.5, "carol": -2.0}},
    ),
    "how full device and disk are, no size beyond the largest that readers take": (
        {"updated": FULL},
        {"memory_allocated": 3, "memory_peak": 4, "memory_free": 10, "memory_total": 10**12, "memory_reserved": UNSET}
        | {"disk_free": 25, "disk_used": 0.75},
    ),
}
"""What a round was, and columns of its row."""


@pytest.mark.parametrize(("played", "columns"), TOLD.values(), ids=TOLD)
def test_a_row_tells(played: dict[str, Any], columns: dict[str, object]) -> None:
    row = make_row(**played)
    assert {name: row[name] for name in columns} == columns


def test_what_is_trained_on_carries_the_groups_own_advantages() -> None:
    (trained,) = to_train([make_scored(1.0, 0.0)], external=True, scaling=std)
    assert trained.advantages == (1.0, -1.0)
    assert trained.external
    assert trained.prompt == "1 + 1?"


def test_peers_are_compared_by_their_mean_over_all_their_groups() -> None:
    groups = [make_scored(1.0, 0.0), make_scored(0.0, 0.0, 0.0, 0.0), make_scored(0.5, 0.5, peer="bob")]
    assert mean_rewards(groups) == {"alice": pytest.approx(1 / 6), "bob": 0.5}
