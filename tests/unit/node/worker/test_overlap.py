"""What the compute executor does while a node waits: a worker on a real folder, with a light policy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.tasks.scoring import GroupScore
from swarm.types import Completion, Dialogue, Origin, RoundKey
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.factories import DRAWS, FakePolicy, FakeTaskSource, make_ghost, make_rollouts, put
from tests.unit.node.nodes import (
    make_coordinator,
    make_worker,
    rollouts_of,
    rows_of,
    run_all,
    running,
    set_clock,
    until,
)

pytestmark = pytest.mark.anyio

R0 = RoundKey(0)
ROUNDING = 0.005
"""Seconds: rows tell times in milliseconds."""


@dataclass
class TimedPolicy(FakePolicy):
    """Remembers when it generated, Unix seconds."""

    moments: list[float] = field(default_factory=list)

    def generate(self, prompts: Sequence[str | Dialogue], **asked: Any) -> list[tuple[Completion, ...]]:
        self.moments.append(time.time())
        return super().generate(prompts, **asked)


async def test_while_the_peers_are_awaited_own_gradients_are_added_up_and_the_next_rounds_questions_made(
    layout: Layout,
) -> None:
    policy, source = FakePolicy(), FakeTaskSource()
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, source)):
        await set_clock(layout, 0)
        await until(lambda: policy.begun and source.asked == 4)
        assert not policy.trained
        assert not any(group.external for group in policy.begun)
        put_rollouts(layout, "bob")
        await until(lambda: rows_of(layout, "alice"))
        await set_clock(layout, 1)
        await until(layout.rollout_file(RoundKey(1), "alice").exists)
    assert [group.external for group in policy.trained[0]] == [False, False, True, True]
    assert source.asked <= 6, "and are not made a second time"


async def test_with_staleness_the_next_round_is_generated_and_added_up_before_it_is_open(layout: Layout) -> None:
    policy = FakePolicy()
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, staleness=1, liveness_timeout=60.0)):
        await set_clock(layout, 0)
        await until(lambda: policy.generated == 2)  # while the peers are awaited
        assert not policy.trained
        assert not layout.rollout_file(RoundKey(1), "alice").exists(), "a round that is not open has no files"
        put_rollouts(layout, "bob")
        await until(lambda: policy.generated == 3)  # the one after it, as soon as the update is made
        await until(lambda: policy.begun)
        assert len(policy.trained) == 1
        ahead = {group.prompt for group in policy.begun}
        put_rollouts(layout, "bob", RoundKey(1))
        await set_clock(layout, 1)
        await until(lambda: len(policy.trained) == 2)
    assert {group.prompt for group in policy.trained[1] if not group.external} == ahead


async def test_a_slow_scorer_does_not_change_which_policy_generates(layout: Layout) -> None:
    source = FakeTaskSource(slow=0.05)
    worker = make_worker(layout, "alice", source=source, external_groups=0, staleness=1)
    assert await run_all(make_coordinator(layout), worker) == [0, 0]
    assert [rollouts_of(layout, round_, "alice").policy.rounds_trained for round_ in range(5)] == [0, 0, 1, 2, 3]
    slow = [rollouts_of(layout, round_, "alice").rollouts for round_ in range(5)]
    fast_layout = Layout(layout.path / "fast", "exp")
    fast = make_worker(fast_layout, "alice", external_groups=0, staleness=1)
    assert await run_all(make_coordinator(fast_layout), fast) == [0, 0]
    assert slow == [rollouts_of(fast_layout, round_, "alice").rollouts for round_ in range(5)]


class LateVerdicts(FakeTaskSource):
    """Says of one round's answers what they are worth when it is let go."""

    def __init__(self, key: RoundKey) -> None:
        super().__init__()
        self._late = {request.seed for request in DRAWS.questions("alice", key, 2)}
        self.go, self.gone = anyio.Event(), 0

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        if origin.seed in self._late:
            await self.go.wait()
            self.gone += 1
        return await super().score(origin, claimed_prompt, completions)


async def test_a_skipped_round_that_is_scored_late_takes_nothing_from_the_update_of_another(layout: Layout) -> None:
    policy, source = FakePolicy(), LateVerdicts(RoundKey(1))
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, source, staleness=1, liveness_timeout=60.0)):
        await set_clock(layout, 0)
        await until(layout.rollout_file(R0, "alice").exists)
        put_rollouts(layout, "bob")
        await until(lambda: rows_of(layout, "alice"))
        await set_clock(layout, 7)
        await until(lambda: policy.begun and layout.rollout_file(RoundKey(7), "alice").exists())
        own = {entries[0].prompt for entries in rollouts_of(layout, 7, "alice").rollouts.values()}
        assert {group.prompt for group in policy.begun} == own
        source.go.set()
        await until(lambda: source.gone == 2)
        put_rollouts(layout, "bob", RoundKey(7))
        await until(lambda: len(rows_of(layout, "alice")) == 2)
    assert not rows_of(layout, "alice")[1].generated_ahead
    assert {group.prompt for group in policy.trained[1] if not group.external} == own


async def test_the_row_and_the_log_say_when_a_node_generated_published_fetched_and_updated(layout: Layout) -> None:
    make_ghost(layout, "bob")
    with capture_logs() as logs:
        async with running(make_worker(layout, "alice")):
            await set_clock(layout, 0)
            await until(lambda: layout.rollout_file(R0, "alice").exists())
            put_rollouts(layout, "bob")
            await until(lambda: [log for log in logs if log["event"] == "round.completed"])
    row = rows_of(layout, "alice")[0]
    activities = (row.generating, row.publishing, row.fetching, row.updating)
    assert all(activities)
    for spans in activities:
        moments = [moment for span in spans for moment in span]
        assert moments == sorted(moments)
        assert moments[0] >= 0
        assert moments[-1] <= row.seconds_round + 0.001
    assert row.generating[0][1] <= row.publishing[0][1] <= row.updating[-1][1]
    assert row.fetching[-1][1] <= row.updating[-1][1]
    (line,) = [log for log in logs if log["event"] == "round.completed"]
    assert line["updating"] == f"{row.updating[0][0]:.2f} to {row.updating[-1][1]:.2f}"


async def test_what_is_generated_ahead_stands_in_the_row_of_the_round_in_which_it_was(layout: Layout) -> None:
    """So that the rows of a node, one after the other, draw what it did at every moment."""
    policy = TimedPolicy()
    worker = make_worker(layout, "alice", policy, external_groups=0, staleness=1)
    assert await run_all(make_coordinator(layout), worker) == [0, 0]
    rows = rows_of(layout, "alice")
    assert rows[-1].generating == [], "the last round was generated before"
    began = [row.timestamp - row.seconds_round for row in rows]
    told = [(at + first, at + last) for at, row in zip(began, rows, strict=True) for first, last in row.generating]
    assert len(policy.moments) == len(rows)
    for moment in policy.moments:
        assert any(first - ROUNDING <= moment <= last + ROUNDING for first, last in told)
    ends = [row.timestamp - row.seconds_round + row.updating[-1][1] for row in rows]
    assert ends == sorted(ends)


def put_rollouts(layout: Layout, peer: str, key: RoundKey = R0) -> None:
    put(layout.rollout_file(key, peer), encode(make_rollouts(peer, key)))
