"""No reader asks a place for more bytes of a file than its row in doors.md says."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import ProtocolError, SwarmError
from swarm.node.worker import checkpoints
from swarm.policy import peft_form
from swarm.policy.model_files import folder_problem
from swarm.records import archives, packing
from swarm.records.copying import Copier
from swarm.records.files import read_exam, read_peer, read_peers, read_state
from swarm.records.groups import WantedGroups, read_groups
from swarm.records.made_by import made_by
from swarm.records.rollouts import RolloutFiles
from swarm.records.task_files import localised
from swarm.store.base import MOST_PER_RECORD, Blob
from swarm.store.copies import MOST_IN_A_BUNDLE
from swarm.store.folder import fetch, health, publish, watch
from swarm.store.folder import store as folder_store
from swarm.store.folder.beneath import Within
from swarm.store.folder.bundles import open_bundle
from swarm.store.folder.fetch import read_tagged
from swarm.store.folder.store import Recognised
from swarm.store.run import Run
from swarm.tasks.python.questions import turns_of
from swarm.views.status import StatusReader
from swarm.views.summary import summarise_run
from swarm.views.tables.rows import reward_rows, rollout_rows
from swarm.views.validate import validate
from swarm.wire import keys
from tests.doubles.memory import MemoryPlace
from tests.unit.views.factories import make_experiment, run_of

Patch = pytest.MonkeyPatch

KIB, MIB = 1 << 10, 1 << 20
SHA256 = "a" * 64
LARGEST = defaultdict(lambda: 64 * KIB) | {
    keys.PEERS: 8 * KIB,
    keys.ROLLOUTS: 64 * MIB,
    keys.EXAM: 16 * MIB,
    keys.TASKS: 64 * MIB,
}
"""By the first part of a key: all others are records of 64 kB."""


@pytest.fixture
def asked(monkeypatch: Patch) -> dict[str, int]:
    """First part of a key -> the most bytes that anybody has asked for."""
    most = dict[str, int]()

    def asked_for(file: Within, limit: int, *folder: Any) -> Blob:
        first = file.names[0]
        most[first] = max(limit, most.get(first, 0))
        return read_tagged(file, limit, *folder)

    monkeypatch.setattr(folder_store, "read_tagged", asked_for)
    return most


def copy(run: Run) -> None:
    for _ in range(2):
        Copier(run.store, MemoryPlace().open("copy")).run()


READERS: dict[str, tuple[Callable[[Run], object], set[str]]] = {
    "peers": (read_peers, {keys.PEERS}),
    "peer": (lambda run: read_peer(run, "alice"), {keys.PEERS}),
    "state": (read_state, {"state"}),
    "exam": (read_exam, {keys.EXAM}),
    "status": (lambda run: StatusReader(run, liveness_timeout=60.0).read(2e9), {"state", keys.PEERS}),
    "summary": (summarise_run, {"state"}),
    "validate": (lambda run: validate(run, partial=True), {keys.ROLLOUTS, keys.REWARDS}),
    "groups": (lambda run: read_groups(run, WantedGroups(), 9), {keys.ROLLOUTS}),
    "rollouts": (lambda run: [RolloutFiles(run).decoded(*each, 64 * MIB) for each in RolloutFiles(run)], set()),
    "tables": (lambda run: [*rollout_rows(run), *reward_rows(run)], {keys.ROLLOUTS, keys.REWARDS}),
    "copy": (copy, {keys.ROLLOUTS, keys.REWARDS, keys.PEERS, keys.EXAM}),
    "maker": (made_by, {"state"}),
}


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_asks_for_more_than_is_believed_of_a_kind(tmp_path: Path, asked: dict[str, int], reader: str) -> None:
    layout = make_experiment(tmp_path)
    (layout.root / keys.EXAM).write_bytes(b"[]")
    read, must = READERS[reader]
    read(run_of(layout))
    assert must <= asked.keys()
    taken_as_they_are = {keys.EXPERIMENT, keys.STUDY_RUN} if reader == "copy" else set[str]()
    for first, limit in asked.items():
        assert limit <= (64 * MIB if first in taken_as_they_are else LARGEST[first]), first


def test_a_file_of_a_runs_tasks_is_asked_for_up_to_64_mib(tmp_path: Path, asked: dict[str, int]) -> None:
    layout = make_experiment(tmp_path)
    with suppress(SwarmError):
        localised(run_of(layout).store, {"t": {"dataset": "x.jsonl", "sha256": SHA256}}, tmp_path / "cache")
    assert asked == {keys.TASKS: 64 * MIB}


SMALL: dict[str, Callable[[Path], object]] = {
    keys.EXPERIMENT: lambda file: Recognised(file.parent).see(),
    "node.json": lambda file: checkpoints.read_state(str(file), "here", "alice", 3),
    peft_form.CONFIG: lambda file: peft_form.adapter_of(file.parent),
    "config.json": lambda file: folder_problem(file.parent),
    "model.safetensors": lambda file: folder_problem(file.parent),
    "task.py": turns_of,
}
"""Files of which little is believed, and who reads them."""


@pytest.mark.parametrize("name", SMALL)
def test_of_a_small_file_that_is_a_hole_of_a_gigabyte_little_is_held(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    file = tmp_path / name
    file.write_bytes(struct.pack("<Q", 1 << 29))  # of weights: how long the header is
    os.truncate(file, 1 << 30)
    tracemalloc.start()
    try:
        with suppress(SwarmError):
            SMALL[name](file)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_of_a_folder_with_more_names_than_anybody_lists_some_are_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    for number in range(9):
        (tmp_path / f"round_{number}").mkdir()
    monkeypatch.setattr(fetch, "MOST_NAMES", 4)
    monkeypatch.setattr(watch, "MOST_NAMES", 4)
    monkeypatch.setattr(health, "MOST_ENTRIES", 4)
    assert folder_store.FolderStore(tmp_path).list("").looked == 4
    assert len(watch.Newest()(Within(tmp_path))) == 4
    seen, scandir = list[str](), os.scandir

    @contextmanager
    def counted(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            yield (entry for entry in entries if not seen.append(entry.name))  # type: ignore[func-returns-value]

    monkeypatch.setattr(os, "scandir", counted)
    assert not health.survey(tmp_path).complete
    assert len(seen) == 5


def test_a_record_longer_than_any_is_junk_also_where_one_reading_holds_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * (MOST_PER_RECORD + 1) + b"\nshort\n")
    assert folder_store.FolderStore(tmp_path).read_records("log").records == [b"", b"short"]


def test_of_a_bundle_with_more_files_than_any_has_nothing_is_taken(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    for number in range(MOST_IN_A_BUNDLE + 1):
        (tmp_path / "checkpoint" / str(number)).touch()
    with (
        pytest.raises(ProtocolError, match="more than 10000 files"),
        open_bundle(Within(tmp_path, ("checkpoint",)), None),
    ):
        pass


def test_of_an_archive_with_more_files_than_any_has_nothing_more_is_read(monkeypatch: Patch) -> None:
    packed = packing.pack({str(number): b"" for number in range(5)})
    monkeypatch.setattr(packing, "MOST_MEMBERS", 4)
    with pytest.raises(ProtocolError, match="more than 4 files"):
        list(packing.members(io.BytesIO(packed), MIB))


def test_of_a_round_that_was_archived_again_and_again_some_parts_are_read(tmp_path: Path, monkeypatch: Patch) -> None:
    run = run_of(make_experiment(tmp_path))
    assert run.archive
    for number in range(5):
        run.archive.put(keys.archived(1, f"{number:016x}"), b"")
    monkeypatch.setattr(archives, "MOST_PARTS", 4)
    assert len(archives.Archive(run).of_round(1)) == 4


def test_a_large_file_with_another_name_is_put_aside_and_not_copied(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(publish, "MOST_COPIED", 4)
    (tmp_path / "outside").write_bytes(b"12345")
    (tmp_path / "logs").mkdir()
    os.link(tmp_path / "outside", tmp_path / "logs" / "mine")
    publish.clear(Within(tmp_path, ("logs", "mine")), Within(tmp_path, (".tmp",)))
    assert not (tmp_path / "logs" / "mine").exists()
    assert [file.stat().st_ino for file in (tmp_path / "logs").iterdir()] == [(tmp_path / "outside").stat().st_ino]
