"""A file is there whole or not at all, and stays."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.errors import StoreError
from swarm.store.folder.beneath import Within
from swarm.store.folder.publish import failing_to_write, publish, publish_own
from swarm.store.folder.store import FolderStore
from tests.permissions import close, permissions_count, reopen


def at(path: Path) -> Within:
    return Within(path.parent, (path.name,))


# ── durable ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_root_is_durable_in_the_folder_that_it_is_in_and_nothing_is_synced_where_nothing_has_to_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync, root = list[Path](), os.fsync, Within(tmp_path / "studies" / "mine")

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    publish(root / "study.json", b"{}", root / ".tmp")
    assert {root.path, root.path.parent, tmp_path} <= {*synced}
    synced.clear()
    publish(root / "anna.json", b"{}", root / ".tmp", durable=False)
    assert synced == []


def test_a_file_of_the_users_own_follows_no_link_within_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    publish_own(tmp_path / "link" / "exam.json", b"1")
    assert (tmp_path / "mine" / "exam.json").read_bytes() == b"1"
    demo = tmp_path / "experiments" / "demo"
    (demo / "logs" / "mine").mkdir(parents=True)
    for linked in (demo / "linked", demo / "logs" / "mine" / "linked"):
        linked.symlink_to(tmp_path / "mine")
        with pytest.raises(StoreError, match="symbolic link"):
            publish_own(linked / "exam.json", b"2")
    with pytest.raises(StoreError, match="cannot write"):
        publish_own(demo / "logs" / "mine", b"2")
    assert (demo / "logs" / "mine" / "linked").is_symlink(), "a folder that a user names by mistake stays"
    assert (tmp_path / "mine" / "exam.json").read_bytes() == b"1"


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────────────
def expect_failure(target: Path, temporary: Path, message: str) -> None:
    """Publishing must fail, say where and why, and leave the target and the temporary folder as they were."""
    before = target.read_bytes() if target.is_file() else None
    with pytest.raises(StoreError, match=f"cannot write {re.escape(str(target))}: {message}; "):
        publish(at(target), b"new", at(temporary))
    assert (target.read_bytes() if target.is_file() else None) == before
    assert not temporary.is_dir() or not list(temporary.iterdir())


def test_a_target_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "anna.json" / "in the way").mkdir(parents=True)
    expect_failure(tmp_path / "anna.json", tmp_path / "tmp", "Is a directory")


def test_a_temporary_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tmp").write_bytes(b"a file")
    where = re.escape(str(tmp_path / "tmp"))
    expect_failure(tmp_path / "anna.json", tmp_path / "tmp", rf"Not a directory \({where}\)")


# ── what the system refuses is told with the remedy that fits ─────────────────────────────────────────────────────────
@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "share").mkdir()
    yield tmp_path / "share"
    reopen(tmp_path)


@pytest.mark.parametrize("gone", ["share", "share/peers"])
def test_permissions_that_were_taken_away_are_not_called_a_mount_that_is_gone(root: Path, gone: str) -> None:
    store = FolderStore(root, "anna")
    store.put("peers/anna.json", b"{}")
    close(root.parent / gone)
    with permissions_count(), pytest.raises(StoreError, match=r"Permission denied.*chmod") as refused:
        store.put("peers/anna.json", b"{}")
    assert "mounted" not in str(refused.value)


@pytest.mark.parametrize(
    ("number", "what_to_do"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "for writing"),
        (errno.ESTALE, "mounted"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EACCES, "chmod"),
    ],
)
def test_each_refusal_has_its_own_remedy(tmp_path: Path, number: int, what_to_do: str) -> None:
    with pytest.raises(StoreError, match=what_to_do), failing_to_write(Within(tmp_path, ("a",))):
        raise OSError(number, os.strerror(number))
