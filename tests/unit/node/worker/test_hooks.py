"""Where a feature may join in a round, each hook seen by what it changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from swarm.node import round as told
from swarm.node.worker.hooks import Hooks, Peers, PublishingHook
from swarm.node.worker.steps import External, OpenedRound, PlayedRound, Seconds
from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.messages import RolloutFile
from swarm.wire.metrics import MetricsRow
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, make_ghost, make_rollouts, put
from tests.unit.node.nodes import make_worker, released, rollouts_of, rows_of, running, set_clock, until

pytestmark = pytest.mark.anyio

R0 = RoundKey(0)


class Witness:
    """A feature that joins in everywhere."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def draw(self, opened: OpenedRound, drawn: External) -> External:
        self.said.append(f"drawn {len(drawn.groups)} for round {opened.key.round}")
        return replace(drawn, groups=drawn.groups[:1])

    async def update(self, opened: OpenedRound, seconds: Seconds, peers: Peers) -> None:
        self.said.append(f"updated among {sorted(peers.live())}")

    def fill(self, row: MetricsRow, played: PlayedRound) -> None:
        self.said.append(f"row of {len(played.drawn.groups)}")
        row.pool_examined = 77

    async def end(self, row: MetricsRow, rounds_trained: int) -> None:
        self.said.append(f"submitted after {rounds_trained} updates")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "exp")


async def test_a_feature_joins_in_after_the_drawing_and_the_update_in_the_row_and_after_it(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness, policy = Witness(), FakePolicy()
    hooks = Hooks((witness.draw,), (witness.update,), (witness.fill,), (witness.end,))
    monkeypatch.setattr(told, "hooks_of", lambda *_: hooks)
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, liveness_timeout=60.0)):
        await set_clock(layout, 0)
        await until(layout.rollout_file(R0, "alice").exists)
        put(layout.rollout_file(R0, "bob"), encode(make_rollouts("bob", R0)))
        await until(lambda: len(witness.said) == 4)
    drawn, *after = witness.said
    assert drawn == "drawn 2 for round 0"
    assert after == ["updated among ['bob']", "row of 1", "submitted after 1 updates"]
    assert [group.external for group in policy.trained[0]] == [False, False, True]
    (row,) = rows_of(layout, "alice")
    assert (row.external_groups, row.pool_examined) == (1, 77)


async def test_what_is_changed_before_publishing_is_taken_back_by_the_node_that_comes_back(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_first(file: RolloutFile, before: str, after: str) -> RolloutFile:
        rollouts = {
            slot: [msgspec.structs.replace(one, response=after + one.response.removeprefix(before)) for one in entries]
            for slot, entries in file.rollouts.items()
        }
        return msgspec.structs.replace(file, rollouts=rollouts)

    hook = PublishingHook(lambda file: put_first(file, "", "loud "), lambda file: put_first(file, "loud ", ""))
    monkeypatch.setattr("swarm.node.worker.worker.before_publishing", lambda *_: (hook,))
    policy = FakePolicy(hold_at="train")
    with released(policy):
        async with running(make_worker(layout, "alice", policy, external_groups=0)):
            await set_clock(layout, 0)
            await until(policy.holding.is_set)
    published = [one.response for entries in rollouts_of(layout, 0, "alice").rollouts.values() for one in entries]
    assert all(text.startswith("loud ") for text in published)
    again = FakePolicy()
    async with running(make_worker(layout, "alice", again, external_groups=0)):
        await until(lambda: again.trained)
    assert [f"loud {one.text}" for group in again.trained[0] for one in group.completions] == published
