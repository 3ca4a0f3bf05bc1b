"""Questions of a node's own that cannot be made within limits: their slots stay empty, and the node lives on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from swarm.errors import ProtocolError
from swarm.tasks.family import QuestionRequest
from swarm.types import Question, RoundKey
from tests.layout import Layout
from tests.unit.node.factories import DRAWS, FakePolicy, FakeTaskSource, make_ghost
from tests.unit.node.nodes import make_worker, play_rounds, play_to_the_end, rollouts_of, rows_of, running

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_workers")]
ROUNDS = 3
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
    await play_to_the_end(layout, range(ROUNDS), worker)
    assert [row.local_groups for row in rows_of(layout, "alice")] == [3, 0, 4]
    first = rollouts_of(layout, 0, "alice")
    assert {*first.rollouts, *(first.earlier or ())} == {"0", "2", "3"}
    assert not layout.rollout_file(RoundKey(1), "alice").exists(), "a file without groups is refused"


async def test_a_killed_node_has_its_weights_again(tmp_path: Path) -> None:
    policies, layouts = [FakePolicy() for _ in range(3)], [Layout(tmp_path / name, "exp") for name in ("a", "b")]
    settings = {"source": Limited(), "local_groups": 4, "liveness_timeout": 60.0, "checkpoint_interval": 100}
    for layout in layouts:
        make_ghost(layout, "bob", rounds=ROUNDS)
    await play_to_the_end(layouts[0], range(ROUNDS), make_worker(layouts[0], "alice", policies[0], **settings))
    async with running(make_worker(layouts[1], "alice", policies[1], **settings)):
        await play_rounds(layouts[1], range(ROUNDS - 1))
    again = make_worker(layouts[1], "alice", policies[2], **settings)
    await play_to_the_end(layouts[1], range(ROUNDS - 1, ROUNDS), again)
    assert policies[2].weights == policies[0].weights != "fresh"
