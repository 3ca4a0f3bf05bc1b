"""Questions of a node's own that cannot be made within limits: their slots stay empty, and the node lives on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swarm.errors import ProtocolError
from swarm.tasks.family import QuestionRequest
from swarm.types import Question, RoundKey
from tests.layout import Layout
from tests.unit.node.factories import DRAWS, FakeTaskSource
from tests.unit.node.nodes import make_worker, play_to_the_end, rollouts_of, rows_of

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
