"""Peers' groups that were published one by one, as an intake takes them; files are real."""

from __future__ import annotations

import msgspec
import pytest

from swarm.node.sharing.reading import MOST_TRIES
from swarm.store.base import PAGE
from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.group_files import digest
from swarm.wire.messages import RolloutFile
from tests.layout import Layout
from tests.unit.node.factories import make_rollouts, put
from tests.unit.node.intakes import R0, TestedIntake, TrustsTabs, publish

pytestmark = pytest.mark.anyio
R1 = RoundKey(1)


def publish_early(layout: Layout, file: RolloutFile) -> RolloutFile:
    """Each group in a file of its own, but for the last; returns the file with that, which is to come."""
    last, key, named = max(file.rollouts), RoundKey(file.round, file.stage), {}
    for slot in file.rollouts.keys() - {last}:
        data = encode(msgspec.structs.replace(alone(file, slot), timestamp=0.0))
        put(layout.group_file(key, file.peer_id, int(slot)), data)
        named[slot] = digest(data)
    return msgspec.structs.replace(alone(file, last), earlier=named)


def alone(file: RolloutFile, slot: str) -> RolloutFile:
    return msgspec.structs.replace(file, rollouts={slot: file.rollouts[slot]}, groups={slot: file.groups[slot]})


def texts(intake: TestedIntake, *peers: str, key: RoundKey = R0) -> list[list[str]]:
    return [[one.text for one in scored.group.completions] for scored in intake.groups(*peers, key=key)]


async def test_groups_one_by_one_are_those_of_one_file(layout: Layout) -> None:
    intake, other = TestedIntake(layout), TestedIntake(layout)
    whole = make_rollouts("bob", R0, groups=3)
    publish(layout, publish_early(layout, whole))
    await intake.look()
    publish(layout, whole)
    await other.look()
    assert texts(intake, "bob") == texts(other, "bob")
    assert len(texts(intake, "bob")) == 3
    assert intake.arrived == [(R0, "bob")]


async def test_a_file_before_those_that_it_names_is_as_one_that_is_not_there_until_they_come(layout: Layout) -> None:
    intake, file = TestedIntake(layout), make_rollouts("bob", R0)
    publish(layout, publish_early(layout, file))
    layout.group_file(R0, "bob", 0).unlink()
    await intake.look(live=["bob"])
    assert intake.silent == [(R0, "bob")]
    publish_early(layout, file)
    await intake.look(live=["bob"])
    assert len(texts(intake, "bob")) == 2
    assert intake.arrived == [(R0, "bob")] * 2
    assert intake.refused() == {"bob": {"missing_part": 1}}


async def test_a_file_whose_groups_never_come_is_read_so_many_times(layout: Layout, gets: list[str]) -> None:
    intake = TestedIntake(layout)
    publish(layout, publish_early(layout, make_rollouts("bob", R0)))
    layout.group_file(R0, "bob", 0).unlink()
    for _ in range(MOST_TRIES + 5):
        await intake.look(live=["bob"])
    assert gets.count("rollouts/round_0/stage_0/bob.json") == MOST_TRIES


async def test_who_can_only_write_over_a_group_puts_nobody_to_blame(layout: Layout) -> None:
    signed = Layout(layout.path, "exp", TrustsTabs())
    intake, file = TestedIntake(signed), make_rollouts("bob", R0)
    file = publish_early(layout, file)
    place = layout.group_file(R0, "bob", 0)
    genuine = place.read_bytes() + b"\t"
    file = msgspec.structs.replace(file, earlier={"0": digest(genuine)})
    put(layout.rollout_file(R0, "bob"), encode(file) + b"\t")
    put(place, b"{}")
    await intake.look(live=["bob"])
    assert texts(intake, "bob") == []
    assert intake.refused() == {"bob": {"unsigned": 1}}
    put(place, genuine)
    await intake.look(live=["bob"])
    assert len(texts(intake, "bob")) == 2


# ── what hostile files cost ─────────────────────────────────────────────────────────────────────────────────────────
async def test_a_flood_of_single_groups_is_not_read_and_hides_nobody(layout: Layout, gets: list[str]) -> None:
    intake = TestedIntake(layout)
    publish(layout, make_rollouts("bob", R0))
    for number in range(PAGE + 100):
        layout.group_file(R0, "eve", number).write_bytes(b"x")
    layout.group_file(R0, "bob", 7).write_bytes(b"x")
    await intake.look(live=["bob", "eve"])
    assert len(texts(intake, "bob")) == 2
    assert gets == ["rollouts/round_0/stage_0/bob.json"]
    assert (intake.arrived, intake.refused()) == ([(R0, "bob")], {})


async def test_single_groups_cost_no_more_bytes_than_one_file_also_of_a_file_that_is_refused(layout: Layout) -> None:
    one = make_rollouts("eve", R0, groups=4)
    size = len(encode(one))
    intake = TestedIntake(layout, max_file_bytes=size // 2)
    publish(layout, publish_early(layout, one))
    await intake.look()
    assert intake.refused() == {"eve": {"oversized": 1}}
    (reading,) = intake.intake._examination.stages[R0].readings.values()
    assert 0 < reading.size <= size // 2
