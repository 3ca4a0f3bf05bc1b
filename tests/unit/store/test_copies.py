"""Private copies of what lies in a shared place."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from swarm.errors import ProtocolError
from swarm.store import copies
from swarm.store.copies import private_copies
from swarm.store.folder.store import FolderStore
from tests.doubles.memory import MemoryPlace

BUNDLE = "checkpoints/round_5/anna"


def test_a_file_that_is_not_there_is_no_trouble_of_this_machine() -> None:
    with private_copies() as own, pytest.raises(FileNotFoundError):
        own.fetch(MemoryPlace().open(), "weights/round_5/anna", "anna", 100)


@pytest.mark.parametrize(("code", "taken"), [(errno.ENXIO, False), (errno.EINVAL, True)])
def test_files_are_holes_only_where_the_file_system_says_so(
    code: int, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path, "anna")
    store.put_bundle(BUNDLE, lambda folder: (folder / "weights").write_bytes(b"w" * 100) and None)

    def tells_of_none(*_: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(copies, "LEAST_SPARSE", 10)
    monkeypatch.setattr(os, "lseek", tells_of_none)
    if taken:
        with store.open_bundle(BUNDLE) as folder:
            assert (folder / "weights").read_bytes() == b"w" * 100
    else:
        with pytest.raises(ProtocolError, match="oversized"), store.open_bundle(BUNDLE):
            pass
