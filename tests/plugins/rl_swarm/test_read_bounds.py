"""Of a run that rl-swarm made no more bytes of a file are asked for than tests/unit/doors.md says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from swarm.records.files import SMALL_FILE
from swarm.records.made_by import as_ours, made_by
from swarm.store.base import Blob
from swarm.store.folder import store as folder_store
from swarm.store.folder.beneath import Within
from swarm.store.folder.fetch import read_tagged
from swarm.store.place import open_place
from swarm.views.summary import summarise_run
from swarm.wire import keys

MIB = 1 << 20
FIXTURE = Path(__file__).parents[2] / "fixtures" / "rl_swarm_run"


def test_of_a_file_no_more_is_asked_for_than_is_believed_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dict[str, int]()

    def asked_for(file: Within, limit: int, folder: int | None = None) -> Blob:
        asked[file.names[0]] = max(limit, asked.get(file.names[0], 0))
        return read_tagged(file, limit, folder)

    monkeypatch.setattr(folder_store, "read_tagged", asked_for)
    place = Path(shutil.copytree(FIXTURE, tmp_path / "place"))
    (name,) = open_place(place).experiments()[:1]
    run = open_place(place).open(name)
    assert made_by(run)
    summarise_run(as_ours(run))
    assert asked.pop(keys.REWARDS, 0) <= SMALL_FILE
    assert max(asked.values()) <= 16 * MIB
