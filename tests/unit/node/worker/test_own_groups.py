"""A node's own groups: questions that cannot be made, fresh ones where no signal is, groups one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.config import load_settings
from swarm.errors import ConfigError, ExperimentError, ProtocolError
from swarm.node.sharing.admission import Admission
from swarm.records.files import read_peer
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import GroupScore
from swarm.types import Origin, Question, RoundKey
from swarm.wire.codec import decode, encode, to_groups
from swarm.wire.group_files import put_together
from swarm.wire.messages import RolloutFile
from tests.layout import Layout
from tests.unit.node.factories import (
    DRAWS,
    UNIVERSE,
    FakePolicy,
    FakeTaskSource,
    make_peer,
    make_rollouts,
    make_settings,
    put,
    put_reward,
)
from tests.unit.node.nodes import (
    comparable,
    make_coordinator,
    make_worker,
    play_rounds,
    play_to_the_end,
    released,
    rollouts_of,
    rows_of,
    run_all,
    running,
    set_clock,
    until,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_workers")]
R0 = RoundKey(0)


# ── questions that cannot be made within limits: their slots stay empty, and the node lives on ──────────────────────
HARD = {DRAWS.questions("alice", RoundKey(0), 4)[1].seed, *(q.seed for q in DRAWS.questions("alice", RoundKey(1), 4))}
"""One of the first round, all of the second."""


class Limited(FakeTaskSource):
    """Cannot make some questions."""

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        if any(request.seed in HARD for request in requests):
            raise ProtocolError("generation_failed", "the question's generator used up its limits")
        return await super().make(requests)


@pytest.mark.parametrize("frequency", ["stage", "generation"])
async def test_they_are_left_out_and_the_others_keep_their_slots(layout: Layout, frequency: str) -> None:
    worker = make_worker(layout, "alice", source=Limited(), local_groups=4, publish_frequency=frequency)
    await play_to_the_end(layout, range(3), worker)
    assert [row.local_groups for row in rows_of(layout, "alice")] == [3, 0, 4]
    first = rollouts_of(layout, 0, "alice")
    assert {*first.rollouts, *(first.earlier or ())} == {"0", "2", "3"}
    assert not layout.rollout_file(RoundKey(1), "alice").exists(), "a file without groups is refused"


# ── fresh questions, which peers can verify and a redo asks again ───────────────────────────────────────────────────
DYNAMIC: dict[str, Any] = {"dynamic_sampling": 4, "liveness_timeout": 60.0, "checkpoint_interval": 2}


class RareSignal(FakeTaskSource):
    """Two of three questions are answered alike by all."""

    def judged(self, origin: Origin, score: GroupScore) -> GroupScore:
        earned = (1.0 if origin.seed % 3 == 0 else 0.0,) + (0.0,) * (len(score.rewards) - 1)
        return msgspec.structs.replace(score, rewards=earned)


def rare(layout: Layout, policy: FakePolicy | None = None, **settings: Any) -> Any:
    return make_worker(layout, "alice", policy, RareSignal(), **DYNAMIC | settings)


async def test_a_round_goes_on_asking_until_enough_groups_have_a_signal_or_its_attempts_are_used_up(
    layout: Layout,
) -> None:
    await play_to_the_end(layout, range(5), rare(layout, external_groups=0))
    admission = Admission(make_settings(layout.path, **DYNAMIC), DRAWS)
    counts = []
    for row in rows_of(layout, "alice"):
        key = RoundKey(row.round)
        groups = to_groups(rollouts_of(layout, row.round, "alice"), "alice", key)
        assert [group.slot for group in groups] == list(range(row.local_groups))
        assert admission.refusals("alice", key, groups) == [None] * len(groups)
        signals = [group.question.known_origin().seed % 3 == 0 for group in groups]
        assert sum(signals) <= 2
        assert sum(signals) == 2 or row.local_groups > 2
        assert row.my_reward == sum(signals[:2]) / 8, "measured on the first I questions"
        assert row.zero_advantage_local == pytest.approx(1 - sum(signals) / len(signals))
        counts.append(row.local_groups)
    assert max(counts) > 3
    assert all(count <= 2 * 4 for count in counts)


async def test_what_was_sampled_in_all_attempts_and_not_published_is_taken_up(layout: Layout) -> None:
    async with running(rare(layout, external_groups=0)):
        await play_rounds(layout, range(1))
    (row,) = rows_of(layout, "alice")
    assert row.local_groups > 2, "the first round draws anew"
    layout.rollout_file(R0, "alice").unlink()
    layout.metrics_file("alice").unlink()
    layout.reward_file(R0, "alice").unlink()
    policy = FakePolicy()
    await play_to_the_end(layout, range(1), rare(layout, policy, external_groups=0))
    assert policy.generated == 0
    assert rows_of(layout, "alice")[0].local_groups == row.local_groups


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"SWARM_STALENESS": "1"}, "SWARM_DYNAMIC_SAMPLING = 3 and SWARM_STALENESS = 1 exclude each other"),
        ({"MAX_STAGES": "2"}, "and MAX_STAGES = 2 exclude each other"),
        ({"ADAPTIVE_IJ_ENABLED": "True"}, "and ADAPTIVE_IJ_ENABLED = True exclude each other"),
        ({"ROLLOUT_PUBLISH_FREQUENCY": "generation"}, "and ROLLOUT_PUBLISH_FREQUENCY = generation exclude each other"),
        ({"NUM_TRAIN_SAMPLES": "22"}, "may ask 66 questions a round, and peers take at most SWARM_PEER_GROUPS = 64"),
    ],
)
def test_what_needs_to_know_beforehand_how_much_is_asked_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings({}, {"SWARM_DYNAMIC_SAMPLING": "3", **environ}, None)


def test_an_experiment_is_another_one_with_it_and_the_same_without() -> None:
    assert load_settings({}, {"SWARM_DYNAMIC_SAMPLING": "3"}, None).experiment_identity()["dynamic_sampling"] == 3
    assert "dynamic_sampling" not in load_settings({}, {}, None).experiment_identity()


# ── one by one: what peers find, and what a death leaves ────────────────────────────────────────────────────────────
ONE_BY_ONE = {"publish_frequency": "generation"}


def whole(layout: Layout, round_: int) -> RolloutFile:
    """A file of alice's with the groups that it names."""
    key = RoundKey(round_)

    def get(place: str, _: int) -> bytes:
        return (layout.root / place).read_bytes()

    return put_together(rollouts_of(layout, round_, "alice"), "alice", key, get, most_bytes=10**6)


def early(layout: Layout, round_: int = 0) -> dict[str, bytes]:
    """Files of single groups."""
    folder = layout.rollouts_of(RoundKey(round_))
    return {file.name: file.read_bytes() for file in sorted(folder.glob("alice.*.json"))}


async def test_all_frequencies_give_the_same_texts_rewards_and_updates(tmp_path: Path, layout: Layout) -> None:
    at_once, each_round = (Layout(tmp_path / name, "exp") for name in ("at once", "each round"))
    await play_to_the_end(at_once, range(3), make_worker(at_once, "alice"))
    for other, settings in ((layout, ONE_BY_ONE), (each_round, {"publish_frequency": "round"})):
        await play_to_the_end(other, range(3), make_worker(other, "alice", **settings))
        for round_ in range(3):
            ours, theirs = whole(other, round_), rollouts_of(at_once, round_, "alice")
            assert msgspec.structs.replace(ours, timestamp=0.0) == msgspec.structs.replace(theirs, timestamp=0.0)
        assert comparable(other) == comparable(at_once)
    assert [list(early(layout, round_)) for round_ in range(3)] == [["alice.0.json"]] * 3, "all but the last"
    assert list(rollouts_of(layout, 0, "alice").rollouts) == ["1"], "each group once"


async def die_while_publishing(layout: Layout) -> dict[str, bytes]:
    """What a node leaves that is killed once its first group is published."""
    policy = FakePolicy(hold_at="others")
    await set_clock(layout, 0)
    with released(policy):
        async with running(make_worker(layout, "alice", policy, **ONE_BY_ONE)):
            await until(lambda: early(layout))
    return early(layout)


async def test_a_group_is_published_while_the_others_are_generated(layout: Layout) -> None:
    assert list(await die_while_publishing(layout)) == ["alice.0.json"]
    assert not layout.rollout_file(R0, "alice").exists()


async def test_a_published_group_stays_where_another_text_comes_out_now(layout: Layout) -> None:
    left = await die_while_publishing(layout)
    other = FakePolicy(weights="others")
    await play_to_the_end(layout, range(1), make_worker(layout, "alice", other, **ONE_BY_ONE))
    assert early(layout)["alice.0.json"] == left["alice.0.json"]
    first = decode(left["alice.0.json"], RolloutFile, "")
    published = [entry.response for entry in first.rollouts["0"]]
    trained = [[one.text for one in group.completions] for group in other.trained[0]]
    assert published in trained
    assert whole(layout, 0).rollouts["0"] == first.rollouts["0"]


async def test_what_stands_in_the_place_of_an_own_group_is_written_over(layout: Layout) -> None:
    left = await die_while_publishing(layout)
    put(layout.group_file(R0, "alice", 0), b"rubbish")
    await play_to_the_end(layout, range(1), make_worker(layout, "alice", **ONE_BY_ONE))
    assert early(layout)["alice.0.json"] == left["alice.0.json"]
    assert whole(layout, 0).rollouts


async def test_a_generator_that_tells_nothing_before_the_end_leaves_one_file(layout: Layout) -> None:
    class Silent(FakePolicy):
        def generate(self, prompts: Any, **more: Any) -> Any:
            return super().generate(prompts, **{**more, "ready": None})

    await play_to_the_end(layout, range(1), make_worker(layout, "alice", Silent(), **ONE_BY_ONE))
    assert early(layout) == {}
    assert len(rollouts_of(layout, 0, "alice").rollouts) == 2


# ── a mixture of its own: what it asks, publishes and learns from, and peers that change theirs ─────────────────────
ROUNDS = 4


async def test_specialists_ask_their_own_tasks_say_so_and_learn_from_each_other(layout: Layout) -> None:
    codes = await run_all(
        make_coordinator(layout, expected_workers=2, max_rounds=ROUNDS),
        make_worker(layout, "alice", mixture=("bf",), max_rounds=ROUNDS),
        make_worker(layout, "bob", mixture=("arc_1d=3+base_conversion",), max_rounds=ROUNDS),
    )
    assert codes == [0, 0, 0]
    for node, mixture in (("alice", {"bf": 1.0}), ("bob", {"arc_1d": 3.0, "base_conversion": 1.0})):
        registered = read_peer(layout.run, node)
        assert registered
        assert registered.mixture == mixture
        for round_ in range(ROUNDS):
            file = rollouts_of(layout, round_, node)
            assert file.mixture == mixture
            assert {group.task for group in file.groups.values()} <= mixture.keys()
        for row in rows_of(layout, node):
            assert row.task_rewards.keys() <= mixture.keys()
            assert not row.refused_files
        assert sum(row.external_groups for row in rows_of(layout, node)) > ROUNDS


def ghost(layout: Layout, mixtures: Sequence[str]) -> None:
    """A peer that asks one mixture in each round, and registers with the first."""
    of = [UNIVERSE.mixture_of({task: 1.0}) for task in mixtures]
    put(layout.peer_file("bob"), encode(make_peer("bob", last_seen=time.time(), mixture=of[0].weights)))
    for round_, mixture in enumerate(of):
        key = RoundKey(round_)
        put(layout.rollout_file(key, "bob"), encode(make_rollouts("bob", key, mixture=mixture)))
        put_reward(layout, key, "bob")


async def test_a_node_that_comes_back_with_another_mixture_is_told_that_its_peers_would_refuse_it(
    layout: Layout,
) -> None:
    asks_bf = make_worker(layout, "alice", mixture=("bf",), max_rounds=1, clock="own", external_groups=0)
    assert await run_all(asks_bf) == [0]
    with pytest.raises(ExperimentError, match=r"alice asked 'bf' in this experiment, and is to ask all tasks now"):
        await make_worker(layout, "alice").run()


async def test_a_peer_that_changes_its_mixture_between_rounds_is_refused_from_then_on(layout: Layout) -> None:
    ghost(layout, ["bf", "bf", "arc_1d", "bf"])
    await play_to_the_end(layout, range(ROUNDS), make_worker(layout, "alice", liveness_timeout=60.0))
    rows = rows_of(layout, "alice")
    assert [row.external_groups > 0 for row in rows] == [True, True, False, True]
    assert [row.refused_files for row in rows] == [{}, {}, {"other_mixture": 1}, {}]
