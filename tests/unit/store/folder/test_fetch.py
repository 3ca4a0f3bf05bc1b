"""Files of strangers are read within bounds, and junk in a folder is not seen."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ProtocolError, StoreError
from swarm.records.listing import entries, nodes_in, rounds_in
from swarm.store.folder.store import FolderStore

LIMIT = 1000


def read(file: Path, limit: int = LIMIT) -> bytes:
    return FolderStore(file.parent).get(file.name, limit).data


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in entries(FolderStore(folder), "")]


def refused(file: Path) -> str:
    """The reason for which a file is refused; whatever it is, no descriptor stays open."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ProtocolError, match=file.name) as refusal:
        read(file)
    assert len(os.listdir("/proc/self/fd")) == before
    return refusal.value.reason


def test_a_file_of_several_reads_is_put_together(tmp_path: Path) -> None:
    data = os.urandom(3 * 2**20 + 17)
    (tmp_path / "a.json").write_bytes(data)
    assert read(tmp_path / "a.json", 16 * 2**20) == data


def change_at_each_read(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: (change(), read(descriptor, size))[1])


def test_a_file_that_grows_while_it_is_read_is_oversized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"x")
    change_at_each_read(monkeypatch, lambda: os.truncate(file, file.stat().st_size + 400))
    assert refused(file) == "oversized"


def test_of_a_file_that_is_cut_while_it_is_read_there_is_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"x" * 900)
    change_at_each_read(monkeypatch, lambda: os.truncate(file, 3))
    assert read(file) == b"xxx"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_file(device: str) -> None:
    assert refused(Path(device)) == "not_a_file"


def test_a_file_below_a_file_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "round_0").write_bytes(b"a file")
    assert refused(tmp_path / "round_0" / "a.json") == "unreadable"


def test_a_file_on_a_failing_mount_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, size: int) -> bytes:
        raise OSError(errno.ESTALE, "Stale file handle")

    (tmp_path / "a.json").write_bytes(b"x")
    monkeypatch.setattr(os, "read", fail)
    assert refused(tmp_path / "a.json") == "unreadable"


# ── listings ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_numbered_folders_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("round_10", "round_9", "round_0", "round_01", "round_x", "stage_3", "round_2.tmp", "round_-1"):
        (tmp_path / name).mkdir()
    assert rounds_in(FolderStore(tmp_path), "") == [0, 9, 10]


def test_a_folder_that_cannot_be_listed_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "peers").touch()
    with pytest.raises(StoreError, match=r"cannot list .*peers: Not a directory"):
        nodes_in(FolderStore(tmp_path), "peers")


@given(st.sets(st.binary(min_size=1, max_size=255).filter(lambda name: not {0, ord("/")} & {*name}), max_size=20))
def test_no_name_that_a_file_system_can_hold_breaks_a_listing(names: set[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = [name for name in names if name not in (b".", b"..")]
        for name in made:
            Path(folder, os.fsdecode(name)).touch()
        listed = set(names_in(Path(folder)))
        assert {os.fsencode(name) for name in listed} <= set(made)
        assert nodes_in(FolderStore(Path(folder)), "") <= {name.removesuffix(".json") for name in listed}
