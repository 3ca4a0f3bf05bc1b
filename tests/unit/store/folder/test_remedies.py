"""What the system refuses is told with the remedy that fits, not with one that is for something else."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.errors import StoreError
from swarm.store.folder.beneath import Within
from swarm.store.folder.publish import failing_to_write
from swarm.store.folder.store import FolderStore
from tests.permissions import close, permissions_count, reopen


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
