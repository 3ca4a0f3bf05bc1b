"""A liar, a copier, a vandal and a flooder beside an honest peer: nothing that they do changes what is learned."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.types import RoundKey, TrainGroup
from swarm.views.status import Status, StatusReader, render
from swarm.wire.messages import RolloutFile
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, make_ghost, make_rollouts, put
from tests.unit.node.intakes import publish
from tests.unit.node.nodes import make_worker, play_to_the_end, rows_of
from tests.unit.views.factories import run_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_workers")]
ROUNDS = 8


def liar(key: RoundKey) -> RolloutFile:
    """Says that what it wrote is the ground truth, and gives itself full rewards."""
    file = make_rollouts("liar", key)
    for slot, entries in file.rollouts.items():
        file.groups[slot].answer = entries[0].response
        for entry in entries:
            entry.reward = 1.0
    return file


def copier(key: RoundKey) -> RolloutFile:
    """Publishes what an honest peer wrote as its own."""
    return msgspec.structs.replace(make_rollouts("bob", key), peer_id="copier")


def make_trouble(layout: Layout) -> None:
    for peer in ("liar", "copier", "vandal"):
        make_ghost(layout, peer)  # so that they are waited for, and all of it is read in its round
    for number in range(ROUNDS):
        key = RoundKey(number)
        publish(layout, liar(key))
        publish(layout, copier(key))
        put(layout.rollout_file(key, "vandal"), b"\x00\xff" * 500)
        for flood in range(50):
            put(layout.rollout_file(key, f"name-{number}-{flood}"), b"{}")


async def trained_of(layout: Layout) -> list[list[TrainGroup]]:
    make_ghost(layout, "bob", rounds=ROUNDS)
    policy = FakePolicy()
    worker = make_worker(
        layout, "alice", policy, max_rounds=ROUNDS, max_peers=8, quarantine_rounds=2, liveness_timeout=60.0
    )
    await play_to_the_end(layout, range(ROUNDS), worker)
    return policy.trained


async def test_bad_peers_change_nothing_and_status_names_them(tmp_path: Path) -> None:
    good, bad = Layout(tmp_path / "good", "exp"), Layout(tmp_path / "bad", "exp")
    make_trouble(bad)
    assert await trained_of(bad) == await trained_of(good)
    assert {peer for row in rows_of(bad, "alice") for peer in row.external_by_peer} == {"bob"}
    status = StatusReader(run_of(bad), liveness_timeout=15.0).read(0.0)
    assert reasons_of(status, "liar") == {"false_answer"}
    assert reasons_of(status, "copier") == {"not_drawn"}
    assert reasons_of(status, "vandal") == {"malformed"}
    assert reasons_of(status, "*") == {"flood"}
    assert reasons_of(status, "bob") == set()
    assert any(row.quarantined for row in rows_of(bad, "alice"))
    assert "copier" in render(status)


def reasons_of(status: Status, peer: str) -> set[str]:
    return {reason for distrust in status.distrusted if distrust.peer == peer for reason in distrust.refused}
