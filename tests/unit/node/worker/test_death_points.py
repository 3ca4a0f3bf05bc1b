"""A node may die at every call to the operating system while it saves; what was acknowledged is there when it starts
anew. That each single write is whole or absent, however its writer dies: tests/unit/store/folder/test_deaths.py."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from swarm.node.worker.checkpoints import save_checkpoint
from swarm.wire.messages import NodeState
from tests.layout import Layout
from tests.unit.node.factories import FakeSnapshot, newest_checkpoint, run_of
from tests.unit.store.folder.test_deaths import Deadly, Death, die_by_exception


def save(layout: Layout, rounds_done: int) -> None:
    state = NodeState(node_id="alice", rounds_done=rounds_done, seed=42, cumulative_reward=1.5, model="fake")
    save_checkpoint(run_of(layout, "alice").store, state, FakeSnapshot(f"after {rounds_done}"), keep=2)


def started_anew(layout: Layout) -> int:
    """Rounds that the next process goes on from."""
    run_of(layout, "alice").store.recover()
    assert not layout.temporary("alice").exists()
    for folder in layout.checkpoints.glob("*/alice"):
        assert {file.name for file in folder.iterdir()} == {"node.json", "weights.txt"}, "half of a checkpoint"
    found = newest_checkpoint(layout, "alice")
    assert found is not None, "all is lost"
    assert FakeSnapshot.read(str(found[1])) == f"after {found[0].rounds_done}"
    return found[0].rounds_done


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)], ids=["some calls", "every call"])
def test_a_death_while_saving_and_pruning_leaves_a_whole_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # counted all the same; no power fails here
    seen = list[int]()
    for point in count(1, step=every):
        layout, acknowledged = Layout(tmp_path / str(point), "exp"), False
        for rounds_done in (1, 2):
            save(layout, rounds_done)
        with pytest.MonkeyPatch.context() as patch, suppress(Death):
            calls = Deadly(patch, point, die=die_by_exception)
            save(layout, 3)
            acknowledged = True
        seen.append(started_anew(layout))
        assert seen[-1] == 3 or (seen[-1] == 2 and not acknowledged)
        save(layout, 4)
        assert started_anew(layout) == 4
        assert len(list(layout.checkpoints.glob("*/alice"))) == 2
        if len(calls.made) < point:
            break
    assert {*seen} == {2, 3}
    assert seen == sorted(seen)
