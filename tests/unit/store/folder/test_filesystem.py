"""Which file system holds a path."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from swarm.store.base import Room
from swarm.store.folder.filesystem import UNKNOWN, delivers_events, filesystem_of, room_at
from swarm.store.folder.store import FolderStore
from swarm.store.health import FileSystem
from tests.doubles.memory import MemoryPlace

TABLE = rb"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:40 / /mnt rw shared:2 master:3 - tmpfs none rw
23 22 0:41 / /mnt/my\040share\134x rw - nfs4 server:/export rw
24 21 0:42 / /drive rw - autofs systemd-1 rw
25 24 0:43 / /drive rw - fuse.rclone remote: rw
this is no line of such a table
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "mountinfo").write_bytes(TABLE)
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me", FileSystem("ext4", "/", True)),
        ("/mnt/not/there/yet", FileSystem("tmpfs", "/mnt", True)),
        ("/mntx", FileSystem("ext4", "/", True)),
        ("/mnt/my share\\x/runs", FileSystem("nfs4", "/mnt/my share\\x", False)),
        ("/drive/runs", FileSystem("fuse.rclone", "/drive", False)),
    ],
)
def test_the_longest_and_topmost_mount_holds_a_path(table: Path, path: str, expected: FileSystem) -> None:
    assert filesystem_of(Path(path), table) == expected


def test_a_link_is_followed_to_where_it_leads(tmp_path: Path, table: Path) -> None:
    (tmp_path / "link").symlink_to("/drive/runs")
    assert filesystem_of(tmp_path / "link" / "exp", table).kind == "fuse.rclone"


def test_without_a_mount_table_nothing_is_known_and_events_are_expected(tmp_path: Path) -> None:
    assert filesystem_of(Path("/"), tmp_path / "none") == FileSystem(UNKNOWN, "", True)


def test_file_systems_that_other_hosts_write_tell_of_nothing_and_local_ones_of_everything() -> None:
    far = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "fuse.sshfs", "fuse.s3fs", "virtiofs")
    local = ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuseblk", "zfs", "vfat", "apfs")
    assert [kind for kind in (*far, *local) if delivers_events(kind)] == [*local]


def test_the_real_table_of_this_machine_can_be_read() -> None:
    assert filesystem_of(Path("/proc/self")).kind in ("proc", UNKNOWN)


def test_a_folder_knows_its_room_once_it_has_written_and_what_lies_nowhere_knows_none(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "anna")
    assert store.facts().room is None
    store.put("a", b"1")
    room, use = store.facts().room, shutil.disk_usage(tmp_path)
    assert room is not None
    assert room.total == pytest.approx(use.used + use.free, rel=0.01)
    assert 0 < room.free < room.total
    counted = os.statvfs(tmp_path)
    assert (room.inodes is None) == (counted.f_files == 0)
    assert room.inodes is None or 0 < room.inodes <= counted.f_files
    assert MemoryPlace().open().facts().room is None


@pytest.mark.parametrize(("files", "left", "known"), [(100, 7, 7), (100, 0, 0), (0, 0, None)])
def test_a_folder_knows_how_many_files_it_has_room_for_where_there_is_such_a_limit(
    files: int, left: int, known: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = {"f_frsize": 1, "f_blocks": 9, "f_bfree": 5, "f_bavail": 4}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=files, f_favail=left, **blocks))
    assert room_at(tmp_path) == Room(4, known, 8)
