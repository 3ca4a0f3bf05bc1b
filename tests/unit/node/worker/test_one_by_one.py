"""A node that publishes its groups one by one: what peers find, and what its death leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.types import RoundKey
from swarm.wire.codec import decode
from swarm.wire.group_files import put_together
from swarm.wire.messages import RolloutFile
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, put
from tests.unit.node.nodes import (
    comparable,
    make_worker,
    play_to_the_end,
    released,
    rollouts_of,
    running,
    set_clock,
    until,
)

pytestmark = pytest.mark.anyio
ONE_BY_ONE = {"publish_frequency": "generation"}
R0 = RoundKey(0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "one by one", "exp")


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
