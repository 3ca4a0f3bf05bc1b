"""A killed node redoes the rounds since its checkpoint, and goes on with the weights that it had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from swarm.node.worker.starting import plan_redo
from swarm.node.worker.worker import Worker
from swarm.records.files import read_peer
from swarm.records.janitor import Janitor, Rules
from swarm.records.liveness import STARTING
from swarm.types import RoundKey
from swarm.wire.codec import decode, encode
from swarm.wire.messages import CompletionsFile, MetricsRow, NodeState
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import (
    FakePolicy,
    FakeTaskSource,
    make_ghost,
    make_rollouts,
    make_row,
    make_settings,
    put,
    there,
)
from tests.unit.node.nodes import (
    comparable,
    completions_file,
    make_worker,
    play_rounds,
    play_to_the_end,
    released,
    rollouts_of,
    rows_of,
    running,
    until,
)
from tests.unit.node.worker.test_conversing import Conversing, Talking
from tests.unit.node.worker.test_own_groups import Limited, RareSignal, ghost

pytestmark = pytest.mark.anyio

ROUNDS = 6
KILLED_IN = 4


# ── the plan ────────────────────────────────────────────────────────────────────────────────────────────────────────
def row(round_: int, trained_on: Sequence[str] = (), **more: Any) -> MetricsRow:
    return make_row(round_, **{"external_groups": len(trained_on), "trained_on": list(trained_on)} | more)


def saved(rounds_done: int, seed: int = 42) -> NodeState:
    return NodeState(node_id="alice", rounds_done=rounds_done, seed=seed, cumulative_reward=0.0, model="fake")


FIVE = [row(number) for number in range(5)]
SKIPPING = [row(number) for number in (0, 1, 2, 5, 4, 9)]
NAMELESS = [row(0), row(1, external_groups=2), row(2)]
PLANS: dict[str, tuple[list[MetricsRow], NodeState | None, list[int], int, str]] = {
    "what the checkpoint does not hold": (SKIPPING, saved(2), [2, 4, 5, 9], 0, ""),
    "all, in order": (SKIPPING, None, [0, 1, 2, 4, 5, 9], 0, ""),
    "nothing": (SKIPPING, saved(10), [], 0, ""),
    "to the first row that does not name its groups": (NAMELESS, None, [0], 2, "round 1 does not name the 2 groups"),
    "no more than redo_rounds": (FIVE, None, [0, 1, 2], 2, "more than SWARM_REDO_ROUNDS = 3"),
    "none from another seed's": (FIVE[3:], saved(3, seed=1), [], 2, "seed 1"),
    "nothing named by what is no name": ([row(0, ["bob/0/0"])], None, [], 1, ""),
}


@pytest.mark.parametrize("what", PLANS)
def test_what_is_redone_is_what_the_rows_say_since_the_checkpoint(tmp_path: Path, what: str) -> None:
    rows, checkpoint, rounds, lost, why = PLANS[what]
    plan = plan_redo(rows, checkpoint, make_settings(tmp_path, redo_rounds=3 if rows is FIVE else 100))
    assert ([one.round for one in plan.rounds], plan.lost) == (rounds, lost)
    assert why in plan.why


# ── the whole node ──────────────────────────────────────────────────────────────────────────────────────────────────
def alice(
    layout: Layout, policy: FakePolicy | None = None, source: FakeTaskSource | None = None, **settings: Any
) -> Worker:
    """With a peer that counts as alive for as long as any test takes."""
    usual = {"liveness_timeout": 60.0, "checkpoint_interval": 100}
    return make_worker(layout, "alice", policy, source, **usual | settings)


async def killed(
    layout: Layout, policy: FakePolicy | None = None, source: FakeTaskSource | None = None, **settings: Any
) -> None:
    """Up to KILLED_IN rounds, then nothing is saved; what was saved on the way stays."""
    async with running(alice(layout, policy, source, **settings)):
        await play_rounds(layout, range(KILLED_IN))
        interval = settings.get("checkpoint_interval", 100)
        due = KILLED_IN // interval * interval
        await until(lambda: not due or layout.checkpoint(due, "alice").exists())


def beside_bob(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=ROUNDS)


async def killed_beside_bob(layout: Layout) -> None:
    beside_bob(layout)
    await killed(layout)


def archived(layout: Layout) -> None:
    """The completions went too, and the own texts are in the archive alone."""
    rules = Rules(archive=True, most_files=64, most_bytes=2**20)
    Janitor(layout.run, "zoe", rules, lambda: 0.0).clean(KILLED_IN, {"alice", "bob"}, KILLED_IN)
    assert not layout.rollout_file(RoundKey(0), "bob").exists()


def without_completions(layout: Layout) -> None:
    for round_ in range(ROUNDS):
        completions_file(layout, round_).unlink(missing_ok=True)


@dataclass(frozen=True)
class Kind:
    """A node, its peers, and what happens to its folder while it is dead."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    source: FakeTaskSource = field(default_factory=FakeTaskSource)
    policy: Callable[[], FakePolicy] = FakePolicy
    peers: Callable[[Layout], None] = beside_bob
    meanwhile: Callable[[Layout], None] = lambda _: None


TALKS = {"external_groups": 0}
KINDS = {
    "with dynamic sampling": Kind({"checkpoint_interval": 3, "dynamic_sampling": 4}, RareSignal()),
    "without some of its questions": Kind({"local_groups": 4}, Limited()),
    "archived meanwhile": Kind(meanwhile=archived),
    "taught by a specialist": Kind(
        {"mixture": ("base_conversion",)}, peers=lambda layout: ghost(layout, ["bf"] * ROUNDS)
    ),
    "conversing, one by one": Kind(
        {"publish_frequency": "generation"} | TALKS, Conversing(), Talking, meanwhile=without_completions
    ),
    "conversing, ahead": Kind({"staleness": 1, "max_rounds": ROUNDS} | TALKS, Conversing(), Talking),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_a_killed_node_goes_on_with_the_weights_it_had(tmp_path: Path, kind: Kind) -> None:
    """From a checkpoint or from the beginning; the simulation kills nodes of more kinds."""
    whole, broken = Layout(tmp_path / "whole", "exp"), Layout(tmp_path / "broken", "exp")
    one, other = kind.policy(), kind.policy()
    for layout in (whole, broken):
        kind.peers(layout)
    await play_to_the_end(whole, range(ROUNDS), alice(whole, one, kind.source, **kind.settings))
    await killed(broken, kind.policy(), kind.source, **kind.settings)
    kind.meanwhile(broken)
    with capture_logs() as logs:
        await play_to_the_end(broken, range(KILLED_IN, ROUNDS), alice(broken, other, kind.source, **kind.settings))
    external = any(row.external_groups for row in rows_of(whole, "alice"))
    assert external or "external_groups" in kind.settings, "nothing external was trained on"
    assert other.weights == one.weights
    assert other.trained == one.trained[-len(other.trained) :], "every token of every turn"
    assert comparable(broken) == comparable(whole)
    told = {log["event"]: log.get("count") for log in logs}
    assert told["rounds.redone"] == KILLED_IN % kind.settings.get("checkpoint_interval", 100)
    assert "rounds.lost" not in told


async def test_redo_trains_on_the_tokens_that_were_sampled_and_never_samples_again(layout: Layout) -> None:
    """Also on a device that would sample something else."""
    async with running(alice(layout, FakePolicy("other weights"), external_groups=0)):
        await play_rounds(layout, range(2))
    sampled = [decode(completions_file(layout, round_).read_bytes(), CompletionsFile, "") for round_ in range(2)]
    policy = FakePolicy("other weights")
    policy.name = "another device"
    with capture_logs() as logs:
        await play_to_the_end(layout, range(2, 3), alice(layout, policy, external_groups=0))
    assert [(log["count"], log["exact"]) for log in logs if log["event"] == "rounds.redone"] == [(2, 2)]
    assert policy.generated == 1, "for the round that is not done yet"
    for round_ in range(2):
        trained = [[(c.text, c.token_ids, c.logprobs) for c in group.completions] for group in policy.trained[round_]]
        assert trained == [
            [(c.text, tuple(c.token_ids), tuple(c.logprobs)) for c in group.completions]
            for group in sampled[round_].groups
        ]


DAMAGES: dict[str, tuple[bytes, bytes]] = {
    "missing, as in runs of earlier versions": (b"", b""),
    "torn": (b"}]", b""),
    "of another round": (b'"round":', b'"round":7'),
    "of a later version": (b'version":1', b'version":9'),
    "ragged": (b'"token_ids":[1,2]', b'"token_ids":[1]'),
    "of another tokenizer": (b"fake-tokenizer", b"another"),
    "of other texts": (b"<answer>", b"<answer>0"),
}
"""What becomes of a file, and of what in it."""


async def test_without_their_tokens_groups_are_sampled_again_and_where_that_differs_the_published_texts_count(
    layout: Layout,
) -> None:
    rounds = len(DAMAGES)
    async with running(alice(layout, FakePolicy("other weights"), external_groups=0)):
        await play_rounds(layout, range(rounds))
    for round_, (before, after) in enumerate(DAMAGES.values()):
        file = completions_file(layout, round_)
        put(file, file.read_bytes().replace(before, after)) if before else file.unlink()
    policy = FakePolicy()
    with capture_logs() as logs:
        await play_to_the_end(layout, range(rounds, rounds + 1), alice(layout, policy, external_groups=0))
    assert [log["count"] for log in logs if log["event"] == "rounds.redone"] == [rounds]
    for round_, damage in enumerate(DAMAGES):
        entries = [one for group in rollouts_of(layout, round_, "alice").rollouts.values() for one in group]
        trained = [one for group in policy.trained[round_] for one in group.completions]
        assert {one.text for one in trained} == {entry.response for entry in entries}, damage
        assert not any(one.token_ids for one in trained), damage


async def test_what_a_policy_sampled_whose_updates_are_lost_is_sampled_anew(layout: Layout) -> None:
    await killed_beside_bob(layout)
    file = completions_file(layout, KILLED_IN)
    later = decode(completions_file(layout, KILLED_IN - 1).read_bytes(), CompletionsFile, "")
    put(file, encode(msgspec.structs.replace(later, round=KILLED_IN, rounds_trained=KILLED_IN)))
    layout.rollout_file(RoundKey(0), "alice").unlink()
    await play_to_the_end(layout, range(KILLED_IN, ROUNDS), alice(layout))
    assert decode(file.read_bytes(), CompletionsFile, "").rounds_trained == 0


@pytest.mark.parametrize("damage", ["gone", "another prompt", "of another round", "own gone"])
async def test_redoing_stops_at_groups_that_are_gone_or_refused_now_and_says_so(layout: Layout, damage: str) -> None:
    await killed_beside_bob(layout)
    rows = rows_of(layout, "alice")
    hit = next(row.round for row in rows if row.round >= 2 and row.external_groups)
    file = layout.rollout_file(RoundKey(hit), "alice" if damage == "own gone" else "bob")
    if damage == "another prompt":
        put(file, file.read_bytes().replace(b'"prompt":"', b'"prompt":"not '))
    elif damage == "of another round":
        put(file, encode(msgspec.structs.replace(make_rollouts("bob", RoundKey(hit + 50)), round=hit)))
    else:
        file.unlink()
    policy = FakePolicy()
    with capture_logs() as logs:
        await play_to_the_end(layout, range(KILLED_IN, ROUNDS), alice(layout, policy))
    (lost,) = [log for log in logs if log["event"] == "rounds.lost"]
    assert lost["count"] == KILLED_IN - hit
    assert f"round {hit}" in lost["why"]
    assert [row.round for row in rows_of(layout, "alice")] == list(range(ROUNDS))
    assert len(policy.trained) == ROUNDS - (KILLED_IN - hit)


async def test_groups_that_a_full_disk_kept_from_being_published_are_written_again(layout: Layout) -> None:
    await killed_beside_bob(layout)
    unpublished = [msgspec.structs.replace(row, bytes_published=0) for row in rows_of(layout, "alice")]
    put(layout.metrics_file("alice"), b"".join(encode(row) for row in unpublished))
    for row in unpublished:
        layout.rollout_file(RoundKey(row.round), "alice").unlink()
    policy = FakePolicy()
    with capture_logs() as logs:
        await play_to_the_end(layout, range(KILLED_IN, ROUNDS), alice(layout, policy))
    assert [(log["count"], log["exact"]) for log in logs if log["event"] == "rounds.redone"] == [(KILLED_IN, KILLED_IN)]


async def test_a_node_that_redoes_is_starting_for_its_peers_and_stops_within_a_step(layout: Layout) -> None:
    await killed_beside_bob(layout)
    policy = FakePolicy(hold_at="train")
    worker = alice(layout, policy)
    with released(policy):
        async with running(worker) as codes:
            await until(policy.holding.is_set)
            assert there(read_peer(layout.run, "alice")).status == STARTING
            worker.stop(143)
            with anyio.fail_after(PATIENCE):
                await until(lambda: codes)
    assert codes == [143]
    assert len(policy.trained) <= 1
    assert not layout.checkpoints.exists()
    assert len(rows_of(layout, "alice")) == KILLED_IN
