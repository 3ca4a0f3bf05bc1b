"""`swarm experiment archive`, `restore`, `prune`: a run is taken away and comes back as it was."""

from __future__ import annotations

import tarfile
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


def files_below(folder: Path) -> dict[str, bytes]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if ".tmp" not in name}


def test_a_run_is_packed_with_its_summary_and_restored_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, file = made(tmp_path / "a"), tmp_path / "exp.tar.gz"
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file) == 0
    assert "read back" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "exp.tar.gz"], "no draft is left"
    with tarfile.open(file) as packed:
        assert {"summary.txt", "summary.json"} < set(packed.getnames())
    assert commanded("restore", file, "--path", tmp_path / "b") == 0
    there = files_below(Layout(tmp_path / "b", "exp").root)
    assert there == {name: data for name, data in files_below(here.root).items() if name in there}
    assert run(["validate", "--path", str(tmp_path / "b"), "--experiment", "exp"]) == 0
    assert run(["status", "--path", str(tmp_path / "b"), "--experiment", "exp"]) == 0
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["experiments"]


def test_neither_a_file_nor_an_experiment_that_is_there_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "a")
    file = tmp_path / "exp.tar.gz"
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file) == 0
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file) == 2
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file, "--force") == 0
    assert commanded("restore", file, "--path", tmp_path / "a") == 2
    assert "which stays" in capsys.readouterr().err


def test_what_is_no_archive_is_refused_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "evil.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("../../escaped"))
    assert commanded("restore", file, "--path", tmp_path / "b") == 2
    assert "is refused, nothing was restored" in capsys.readouterr().err
    assert not (tmp_path / "b" / "experiments").exists()
    assert commanded("restore", tmp_path / "nothing.tar.gz", "--path", tmp_path / "b") == 1


def test_links_that_a_stranger_put_in_the_way_lead_nothing_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "a")
    file = tmp_path / "exp.tar.gz"
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file) == 0
    (tmp_path / "outside").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "restoring-exp").symlink_to(tmp_path / "outside")
    assert commanded("restore", file, "--path", tmp_path / "b") == 1
    assert "expected a private folder" in capsys.readouterr().err
    (tmp_path / "b" / "restoring-exp").unlink()
    (tmp_path / "b" / "restoring-exp").mkdir()
    (tmp_path / "b" / "restoring-exp").chmod(0o777)
    assert commanded("restore", file, "--path", tmp_path / "b") == 1
    assert not list((tmp_path / "outside").iterdir())


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


def test_pruning_needs_a_name_and_somebody_to_be_asked(tmp_path: Path) -> None:
    layout = made(tmp_path, rounds=8)
    assert commanded("prune", "--path", tmp_path) == 2
    assert commanded("prune", "exp", "--path", tmp_path, "--keep", "3") in (0, 2)
    assert len(list(layout.rollouts.iterdir())) == 8
