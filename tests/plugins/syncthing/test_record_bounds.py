"""Of this machine's record of members no more is held than tests/unit/doors.md says."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from swarm.errors import StoreError
from swarm.plugins.syncthing.membership import RECORD, MembersRecord


def test_of_a_record_that_is_a_hole_of_a_gigabyte_little_is_held(tmp_path: Path) -> None:
    (tmp_path / RECORD).touch()
    os.truncate(tmp_path / RECORD, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(StoreError):
            MembersRecord(tmp_path).read()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
