"""`swarm experiment archive`, `restore`, `prune`: a run is taken away and comes back as it was."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.records.archives import Archive
from swarm.records.rollouts import RolloutFiles
from swarm.records.whole_run import MANIFEST, PackedFile, PackedRun
from swarm.store.place import open_place
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.records.test_whole_run import forged
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
    assert commanded("restore", tmp_path / "nothing.tar.gz", "--path", tmp_path / "b") == 2


GOOD = {f"experiments/exp/logs/node{number}/events.jsonl": b"{}\n" for number in range(70)}
LAST = "experiments/exp/logs/zoe/events.jsonl"


def packed(last: str = LAST, said: bytes = b"{}\n", held: bytes = b"{}\n") -> bytes:
    """A run of many good files, and the last one; test_whole_run.py has the kinds that it may not be."""
    files = {name: (data, data) for name, data in GOOD.items()}
    return forged(files | {last: (said, held)}, "exp").getvalue()


def ends_in_a_link() -> bytes:
    """The last file is a link that has the name and size that the manifest gives it."""
    whole = gzip.decompress(packed(said=b"", held=b""))
    head = tarfile.TarInfo(LAST)
    head.type, head.linkname = tarfile.SYMTYPE, "/etc/passwd"
    start = whole.rindex(tarfile.TarInfo(LAST).tobuf(tarfile.USTAR_FORMAT)[:100])
    return gzip.compress(whole[:start] + head.tobuf(tarfile.GNU_FORMAT) + whole[start + 512 :])


def bomb_at_the_end() -> bytes:
    """The last file is a gigabyte of zeros, in a megabyte."""
    big = PackedFile(2**30, hashlib.sha256().hexdigest())
    small = {name: PackedFile(len(data), hashlib.sha256(data).hexdigest()) for name, data in GOOD.items()}
    run = PackedRun(experiment="exp", packed_at=1.0, swarm="1", files=small | {LAST: big})
    whole = tarfile.TarInfo(MANIFEST)
    text = msgspec.json.encode(run)
    whole.size = len(text)
    parts = [whole.tobuf(tarfile.USTAR_FORMAT), text, bytes(-len(text) % 512)]
    for name, data in GOOD.items():
        head = tarfile.TarInfo(name)
        head.size = len(data)
        parts += [head.tobuf(tarfile.USTAR_FORMAT), data, bytes(-len(data) % 512)]
    head = tarfile.TarInfo(LAST)
    head.size = 2**30
    parts.append(head.tobuf(tarfile.USTAR_FORMAT))
    return gzip.compress(b"".join(parts), 1) + gzip.compress(bytes(2**24), 1) * 64


BAD_ENDS: dict[str, Callable[[], bytes]] = {
    "a link": ends_in_a_link,
    "a composed name": lambda: packed("experiments/exp/logs/jos\u00e9/events.jsonl"),
    "a decomposed name": lambda: packed("experiments/exp/logs/jose\u0301/events.jsonl"),
    "a cut tar": lambda: gzip.compress(gzip.decompress(packed())[:-1500]),
    "a cut gzip": lambda: packed()[:-9],
    "a wrong checksum of gzip": lambda: packed()[:-8] + bytes(8),
    "garbage": lambda: packed() + b"garbage" * 100,
    "another archive": lambda: packed() + packed(),
    "zeros without end": lambda: packed() + gzip.compress(bytes(2**26)),
    "other bytes than said": lambda: packed(said=b"said", held=b"held"),
    "a bomb": bomb_at_the_end,
}


@pytest.mark.parametrize("end", BAD_ENDS)
def test_an_archive_with_a_bad_end_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str) -> None:
    file = tmp_path / "evil.tar.gz"
    file.write_bytes(BAD_ENDS[end]())
    assert commanded("restore", file, "--path", tmp_path / "b") == 2
    assert "is refused, nothing was restored" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [file], "no path is left, not even the place's own folder"


def test_a_restore_that_was_killed_goes_on_and_another_file_takes_nothing_of_it(tmp_path: Path) -> None:
    here, file = made(tmp_path / "a"), tmp_path / "exp.tar.gz"
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file) == 0
    other = tmp_path / "other.tar.gz"
    other.write_bytes(packed())
    killed = "import os, signal; from swarm.records import whole_run; take = whole_run._take; seen = []\n"
    killed += "def dying(name, *rest):\n    take(name, *rest); seen.append(name)\n"
    killed += "    if len(seen) == 100: os.kill(os.getpid(), signal.SIGKILL)\n"
    killed += "whole_run._take = dying; from swarm.cli.main import run\n"
    killed += f"run(['experiment', 'restore', {str(other)!r}, '--path', {str(tmp_path / 'b')!r}])"
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -signal.SIGKILL
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["restoring-exp"], "no experiment is half there"
    assert files_below(tmp_path / "b")
    assert commanded("restore", file, "--path", tmp_path / "b") == 0
    there = files_below(Layout(tmp_path / "b", "exp").root)
    assert there == {name: data for name, data in files_below(here.root).items() if name in there}
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["experiments"]


def test_a_disk_that_fills_leaves_what_is_named_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "exp.tar.gz"
    file.write_bytes(packed())
    sync = os.fsync
    left = iter(range(40))

    def full(descriptor: int) -> None:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert commanded("restore", file, "--path", tmp_path / "b") == 1
    said = capsys.readouterr().err
    assert "No space left" in said
    assert f"41 files lie in {tmp_path / 'b' / 'restoring-exp'}" in said
    monkeypatch.undo()
    assert commanded("restore", file, "--path", tmp_path / "b") == 0
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["experiments"]


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


def test_no_name_of_a_stranger_keeps_a_run_from_being_archived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, file = made(tmp_path / "a"), tmp_path / "exp.tar.gz"
    honest = files_below(here.root)
    for name in ("peers/CON.json", "peers/ALICE.json", "rewards/round_0/stage_0/nul.json", "logs/Alice/metrics.jsonl"):
        (here.root / name).parent.mkdir(parents=True, exist_ok=True)
        (here.root / name).write_bytes(b"{}\n")
    assert commanded("archive", "exp", "--path", tmp_path / "a", "--output", file) == 0
    said = capsys.readouterr().err
    assert "CON.json" in said
    assert "nul.json" in said
    assert commanded("restore", file, "--path", tmp_path / "b") == 0
    there = files_below(tmp_path / "b" / "experiments" / "exp")
    assert {name: there.get(name) for name in honest} == honest
