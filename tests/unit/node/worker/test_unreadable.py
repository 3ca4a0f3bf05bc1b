"""What a node cannot read, for want of a permission, it counts and steps around."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.records.files import read_peer
from swarm.types import RoundKey
from tests.layout import Layout
from tests.permissions import close, permissions_count, reopen
from tests.unit.node.factories import make_ghost, put
from tests.unit.node.nodes import make_coordinator, make_worker, play_to_the_end, rows_of, run_all

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_workers")]
ROUNDS = 3


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    yield Layout(tmp_path, "exp")
    reopen(tmp_path)


async def test_files_of_a_peer_that_cannot_be_read_are_counted_and_the_others_trained_on(layout: Layout) -> None:
    for node in ("bob", "carol"):
        make_ghost(layout, node, rounds=ROUNDS)
    for number in range(ROUNDS):
        close(layout.rollout_file(RoundKey(number), "carol"))
        close(layout.reward_file(RoundKey(number), "carol"))
    make_ghost(layout, "dave")
    close(layout.peer_file("dave"))
    with permissions_count():
        worker = make_worker(layout, "alice", max_rounds=ROUNDS, liveness_timeout=60.0)
        await play_to_the_end(layout, range(ROUNDS), worker)
    rows = rows_of(layout, "alice")
    assert [row.round for row in rows] == [0, 1, 2]
    assert [row.refused_by_peer for row in rows] == [{"carol": {"unreadable": 1}}] * ROUNDS
    assert {peer for row in rows for peer in row.external_by_peer} == {"bob"}
    assert {row.total_agents for row in rows} == {3}, "who cannot be read is not waited for"


@pytest.mark.parametrize("what", ["metrics", "registration", "rollouts"])
async def test_a_node_goes_on_whatever_file_of_its_own_was_closed_to_it(layout: Layout, what: str) -> None:
    """By whoever has the same user on a shared account or mount."""
    places = {
        "metrics": layout.metrics_file("alice"),
        "registration": layout.peer_file("alice"),
        "rollouts": layout.rollout_file(RoundKey(1), "alice"),
    }
    put(places[what], b"")
    close(places[what])
    with permissions_count():
        nodes = make_coordinator(layout, max_rounds=ROUNDS), make_worker(layout, "alice", max_rounds=ROUNDS)
        assert await run_all(*nodes) == [0, 0]
    assert [row.round for row in rows_of(layout, "alice")] == [0, 1, 2]
    assert (peer := read_peer(layout.run, "alice"))
    assert peer.status == "stopped"
