"""`swarm experiment prune`: old rollouts go into the archive, and everything still reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.records.archives import Archive
from swarm.records.rollouts import RolloutFiles
from swarm.store.place import open_place
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.factories import make_experiment


def made(path: Path, **more: int) -> Layout:
    layout = make_experiment(path, **more)
    for checkpoint in layout.checkpoints.glob("round_*/*"):
        (checkpoint / "state.json").write_bytes(b"{}")
    return layout


def commanded(*words: str | Path) -> int:
    return run(["experiment", *map(str, words)])


def test_old_rollouts_are_pruned_into_the_archive_and_everything_still_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_REDO_ROUNDS", "0")
    layout = made(tmp_path, rounds=8)
    for peer in layout.peers.glob("*.json"):
        peer.unlink()  # those of finished workers say what they need; these were made by hand
    before = RolloutFiles(layout.run)
    published = {(key, node): before.read(keys.rollout(key, node), 10**6) for key, node in before}
    assert commanded("prune", "exp", "--path", tmp_path, "--keep", "3", "--yes") == 0
    assert "archived rollouts of 5 rounds" in capsys.readouterr().out
    assert len(list(layout.rollouts.iterdir())) == 3
    after = RolloutFiles(layout.run)
    assert {(key, node): after.read(keys.rollout(key, node), 10**6) for key, node in after} == published
    assert run(["validate", "--path", str(tmp_path), "--experiment", "exp", "--partial"]) in (0, 1)
    assert "cleaned up before round 5" in capsys.readouterr().out
    assert run(["copy", str(tmp_path), str(tmp_path / "copy"), "--experiment", "exp"]) == 0
    assert Archive(open_place(tmp_path / "copy").open("exp")).rounds().keys() == set(range(5))
    assert commanded("prune", "exp", "--path", tmp_path, "--keep", "3", "--yes") == 0
    assert commanded("clean", "exp", "--path", tmp_path, "--yes") == 0
    assert not list((tmp_path / "archives").rglob("*.tar.gz"))
