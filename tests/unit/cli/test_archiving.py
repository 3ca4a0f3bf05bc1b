"""`swarm experiment prune`: old rollouts go into the archive, and everything still reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.records.archives import Archive
from swarm.records.rollouts import RolloutFiles
from swarm.store.place import open_place
from swarm.wire import keys
from tests.unit.cli.conftest import Typed
from tests.unit.views.factories import make_experiment


def test_old_rollouts_are_pruned_into_the_archive_and_everything_still_reads_them(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_REDO_ROUNDS", "0")
    layout = make_experiment(tmp_path, rounds=8)
    for checkpoint in layout.checkpoints.glob("round_*/*"):
        (checkpoint / "state.json").write_bytes(b"{}")
    for peer in layout.peers.glob("*.json"):
        peer.unlink()  # those of finished workers say what they need; these were made by hand
    before = RolloutFiles(layout.run)
    published = {(key, node): before.read(keys.rollout(key, node), 10**6) for key, node in before}
    prune = ("experiment", "prune", "exp", "--path", tmp_path, "--keep", "3", "--yes")
    assert "archived rollouts of 5 rounds" in typed(*prune).out
    assert len(list(layout.rollouts.iterdir())) == 3
    after = RolloutFiles(layout.run)
    assert {(key, node): after.read(keys.rollout(key, node), 10**6) for key, node in after} == published
    there = ("--path", tmp_path, "--experiment", "exp")
    assert "cleaned up before round 5" in typed("validate", "--partial", *there, codes=(0, 1)).out
    typed("copy", tmp_path, tmp_path / "copy", "--experiment", "exp")
    assert Archive(open_place(tmp_path / "copy").open("exp")).rounds().keys() == set(range(5))
    typed(*prune)
    typed("experiment", "clean", "exp", "--path", tmp_path, "--yes")
    assert not list((tmp_path / "archives").rglob("*.tar.gz"))
