"""What a folder does to a store: shares that go away, full disks, hard links, mounts that know no links."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from swarm.errors import AlreadyThereError, ExperimentError, ProtocolError, StoreError
from swarm.store.folder.store import FolderStore
from swarm.store.place import open_place
from tests.permissions import close, permissions_count, reopen

LOG = "logs/anna/metrics.jsonl"

WRITES: dict[str, Callable[[FolderStore], object]] = {
    "a file": lambda store: store.put("peers/anna.json", b"{}"),
    "records": lambda store: store.append_records(LOG, [b"row"], durable=True),
    "a bundle": lambda store: store.put_bundle("checkpoints/round_1/anna", lambda folder: None),
    "a log": lambda store: store.open_log("logs/anna/stdout.log"),
}


@pytest.mark.parametrize("left", ["nothing", "the mount point"])
@pytest.mark.parametrize("what", WRITES)
def test_nothing_is_written_where_a_share_was_and_is_not_any_more(tmp_path: Path, what: str, left: str) -> None:
    store = FolderStore(tmp_path / "share", "anna")
    store.put("peers/anna.json", b"{}")
    shutil.rmtree(tmp_path / "share")
    if left == "the mount point":
        (tmp_path / "share").mkdir()
    with pytest.raises(StoreError, match="was there and is not any more") as refusal:
        WRITES[what](store)
    assert not refusal.value.blocked
    assert list(tmp_path.rglob("*.json*")) == []
    (tmp_path / "share" / "peers").mkdir(parents=True)
    WRITES[what](store)


@pytest.mark.parametrize("what", WRITES)
def test_a_share_that_goes_away_between_a_look_and_a_write_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    share = tmp_path / "mount" / "experiments" / "demo"
    store = FolderStore(share, "anna")
    store.put("peers/anna.json", b"{}")

    def seen_and_gone() -> str:
        share.parent.rename(tmp_path / "away")
        return ""

    monkeypatch.setattr(store, "_why_empty", seen_and_gone)
    with pytest.raises((OSError, StoreError)):
        WRITES[what](store)
    assert list((tmp_path / "mount").iterdir()) == []


def test_a_log_that_loses_its_share_is_not_begun_anew_under_the_mount_point(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "share", "anna")
    store.put("peers/anna.json", b"{}")
    log = store.open_log("logs/anna/stdout.log")
    shutil.rmtree(tmp_path / "share")
    with pytest.raises((OSError, StoreError)):
        log.reopen()
    assert not (tmp_path / "share").exists()
    log.close()


def test_a_file_with_another_name_is_never_appended_to_but_a_copy_with_its_permissions(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "run", "anna")
    (tmp_path / "secret").write_bytes(b"theirs\n")
    (tmp_path / "run" / "logs" / "anna").mkdir(parents=True)
    (tmp_path / "secret").chmod(0o600)
    os.link(tmp_path / "secret", tmp_path / "run" / LOG)
    assert FolderStore(tmp_path / "run").read_records(LOG).records == [b"theirs"]
    store.append_records(LOG, [b"row"], durable=True)
    assert (tmp_path / "secret").read_bytes() == b"theirs\n"
    assert FolderStore(tmp_path / "run").read_records(LOG).records == [b"theirs", b"row"]
    assert (tmp_path / "run" / LOG).stat().st_mode & 0o777 == 0o600, "what was private stays so"


def test_a_terabyte_of_nothing_costs_neither_its_reader_nor_its_writer_time(tmp_path: Path) -> None:
    """A sparse file in the place of a log: its hole is one junk record, and rows follow it."""
    store = FolderStore(tmp_path / "run", "anna")
    store.append_records(LOG, [b"before"], durable=True)
    os.truncate(tmp_path / "run" / LOG, 1 << 40)
    store.append_records(LOG, [b"row"], durable=True)
    store.append_records(LOG, [b"next"], durable=True)
    found, cursor, more, looks = list[bytes](), "", True, 0
    while more:
        records, cursor, _, more, *_ = store.read_records(LOG, cursor)
        found, looks = found + records, looks + 1
    assert (found, looks < 5) == ([b"before", b"", b"row", b"next"], True)


def test_a_log_whose_name_was_taken_away_is_opened_again(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "run", "anna")
    log = store.open_log(LOG)
    log.write(b"one")
    (tmp_path / "run" / LOG).unlink()
    os.mkfifo(tmp_path / "run" / LOG)
    log.write(b"two")
    log.close()
    assert store.read_records(LOG).records == [b"two"]


@pytest.mark.parametrize("owner", ["ours", "another's"])
@pytest.mark.parametrize("at", ["rollouts/round_3", "rollouts/round_3/stage_0", "logs/anna", ".tmp/anna", LOG])
def test_a_folder_or_log_that_is_closed_holds_up_nobody_who_writes_there(tmp_path: Path, at: str, owner: str) -> None:
    store, closed = FolderStore(tmp_path / "run", "anna"), tmp_path / "run" / at
    (closed.parent if at == LOG else closed / "stage_0").mkdir(parents=True)
    closed.touch()
    if owner == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder to another")
        os.chown(closed, 12345, -1)
    close(closed)
    try:
        with permissions_count():
            store.put("rollouts/round_3/stage_0/anna.json", b"{}")
            store.append_records(LOG, [b"row"], durable=True)
            assert store.get("rollouts/round_3/stage_0/anna.json", 10).data == b"{}"
            assert store.read_records(LOG).records == [b"row"]
        assert len(list(closed.parent.glob(f"{closed.name}.aside-*"))) == (owner == "another's")
    finally:
        reopen(tmp_path)


def test_a_folder_in_the_way_goes_however_deep_it_is(tmp_path: Path) -> None:
    store, here = FolderStore(tmp_path / "run", "anna"), os.getcwd()
    deep = tmp_path / "run" / LOG
    deep.mkdir(parents=True)
    try:
        os.chdir(deep)
        for _ in range(1200):
            os.mkdir("x")
            os.chdir("x")
    finally:
        os.chdir(here)
    store.append_records(LOG, [b"row"], durable=True)
    assert store.read_records(LOG).records == [b"row"]
    assert list((tmp_path / "run" / ".tmp" / "anna").iterdir()) == []


def test_of_a_bundle_no_more_is_taken_than_fits(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "run", "anna")
    store.put_bundle("checkpoints/round_5/anna", lambda folder: (folder / "a").touch())
    os.truncate(tmp_path / "run" / "checkpoints" / "round_5" / "anna" / "a", 1 << 40)
    with pytest.raises(ProtocolError, match="oversized"), store.open_bundle("checkpoints/round_5/anna"):
        pass


def full(*_: Any, **__: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["a file", "records"])
def test_a_full_disk_is_an_error_that_time_may_mend_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    store = FolderStore(tmp_path, "anna")
    WRITES[what](store)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreError, match="No space left") as refusal:
            store.append_records(LOG, [b"more"], durable=True) if what == "records" else store.put("peers/b.json", b"b")
    assert not refusal.value.blocked
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_files_of_a_bundle_are_as_readable_as_their_siblings(tmp_path: Path) -> None:
    """Some libraries write private files whatever the user's mask says."""

    def fill(folder: Path) -> None:
        assert folder.stat().st_mode & 0o777 == 0o700, "nobody puts a link where it is filled"
        (folder / "model").mkdir()
        for name in ("weights", "model/config"):
            (folder / name).write_bytes(b"1")
            (folder / name).chmod(0o600)

    store = FolderStore(tmp_path / "run", "anna")
    store.put("peers/anna.json", b"{}")
    store.put_bundle("checkpoints/round_1/anna", fill)
    bundle = tmp_path / "run" / "checkpoints" / "round_1" / "anna"
    sibling = (tmp_path / "run" / "peers" / "anna.json").stat().st_mode
    assert {(bundle / name).stat().st_mode for name in ("weights", "model/config")} == {sibling}


@pytest.mark.parametrize("name", ["replaced-..%2F..%2Foutside", "replaced-", "replaced-%2Fetc", "replaced-a%2F.%2Fb"])
def test_nothing_is_put_back_to_where_no_bundle_was(tmp_path: Path, name: str) -> None:
    (tmp_path / "run" / ".tmp" / "anna" / name).mkdir(parents=True)
    FolderStore(tmp_path / "run", "anna").recover()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".tmp"]


def test_what_stands_in_the_place_of_a_writers_drafts_keeps_it_from_nothing(tmp_path: Path) -> None:
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "anna").write_bytes(b"a file")
    store = FolderStore(tmp_path, "anna")
    store.recover()
    store.put("peers/anna.json", b"{}")
    assert store.get("peers/anna.json", 10).data == b"{}"


def test_by_path_a_prefix_goes_though_nothing_was_written_before(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "page").write_bytes(b"one")
    FolderStore(tmp_path, "report", by_path=True).remove_prefix("report")
    assert not (tmp_path / "report").exists()


def test_a_mount_without_hard_links_promises_no_exclusive_writes_and_does_its_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    store = FolderStore(tmp_path, "anna")
    monkeypatch.setattr(os, "link", no_links)
    store.put("experiment.json", b"first", if_absent=True)
    with pytest.raises(AlreadyThereError):
        store.put("experiment.json", b"second", if_absent=True)
    assert store.get("experiment.json", 100).data == b"first"
    (tmp_path / "led").symlink_to(tmp_path / "nothing")
    with pytest.raises(AlreadyThereError):
        store.put("led", b"second", if_absent=True)
    store.put_bundle("checkpoints/round_1/anna", lambda folder: (folder / "node.json").write_bytes(b"{}") and None)
    with store.open_bundle("checkpoints/round_1/anna") as folder:
        assert (folder / "node.json").read_bytes() == b"{}"
    assert store.list(".tmp/anna").entries == []


def test_a_link_that_was_made_though_the_server_said_otherwise_is_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def done_but_lost(*args: Any, **kwargs: Any) -> None:
        link(*args, **kwargs)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", done_but_lost)
    FolderStore(tmp_path, "anna").put("experiment.json", b"first", if_absent=True)
    assert (tmp_path / "experiment.json").read_bytes() == b"first"


def test_hints_for_one_who_only_reads_make_nothing(tmp_path: Path) -> None:
    async def listen() -> None:
        heard = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(FolderStore(tmp_path / "run").watch, ["rollouts"], 60.0, heard.set)
            await heard.wait()
            tasks.cancel_scope.cancel()

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(listen)
    assert not (tmp_path / "run").exists()


def test_a_place_names_the_experiments_it_has_and_not_what_nobody_can_look_into(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    with pytest.raises(ExperimentError, match=r"no experiment 'x' in .*: there is none at all"):
        place.open("x")
    for name in ("b", "a"):
        place.open(name, writer="anna").store.put("experiment.json", b"{}")
    assert place.experiments() == ["a", "b"]
    with pytest.raises(ExperimentError, match="there are a, b; name one with --experiment"):
        place.open("x")
    assert place.open("a").store.get("experiment.json", 100).data == b"{}"
    assert place.describe() == str(tmp_path)
    (tmp_path / "closed" / "exp").mkdir(parents=True)
    (tmp_path / "experiments" / "linked").symlink_to(tmp_path / "closed" / "exp")
    close(tmp_path / "closed")
    with permissions_count():
        assert place.experiments() == ["a", "b"]
    reopen(tmp_path)


def test_an_experiment_that_cannot_be_moved_is_an_error_and_stays(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    place.store("a", "anna").put("experiment.json", b"{}")
    (tmp_path / "archives").write_bytes(b"a file")
    with pytest.raises(StoreError, match="cannot move a to"):
        place.move("a", "archives/a")
    assert place.experiments() == ["a"]


def test_a_growing_file_that_gets_another_inode_is_read_on(tmp_path: Path) -> None:
    """Network file systems change inode numbers under the same file."""
    store, file = FolderStore(tmp_path, "anna"), tmp_path / "logs" / "anna" / "metrics.jsonl"
    store.append_records("logs/anna/metrics.jsonl", [b"1", b"2"], durable=False)
    first = store.read_records("logs/anna/metrics.jsonl")
    (copy := file.with_name("copy")).write_bytes(file.read_bytes() + b"3\n")
    copy.replace(file)
    then = store.read_records("logs/anna/metrics.jsonl", first.cursor)
    assert (first.records, then.records, then.restarted) == ([b"1", b"2"], [b"3"], False)


def begun(root: Path, created_at: float) -> FolderStore:
    """The store of somebody who has just begun an experiment there."""
    store = FolderStore(root, "clock")
    store.put("experiment.json", b'{"created_at": %f}' % created_at)
    return store


def test_a_share_that_is_mounted_again_is_recognised_by_its_experiment(tmp_path: Path) -> None:
    begun(tmp_path / "share", 1.0)
    store = FolderStore(tmp_path / "share", "anna")
    store.put("peers/anna.json", b"{}")
    shutil.copytree(tmp_path / "share", tmp_path / "again")  # another folder of the same content
    (tmp_path / "share").rename(tmp_path / "away")
    (tmp_path / "again").rename(tmp_path / "share")
    for write in WRITES.values():
        write(store)
    assert store.get("peers/anna.json", 100).data == b"{}"


@pytest.mark.parametrize(("created_at", "astray"), [(2.0, False), (0.5, True), (None, False)])
def test_in_another_experiment_or_none_in_the_same_place_nothing_is_read_or_written_and_who_is_in_the_later_one_is_told(
    tmp_path: Path, created_at: float | None, astray: bool
) -> None:
    begun(tmp_path / "share", 1.0)
    store = FolderStore(tmp_path / "share", "anna")
    store.put("peers/anna.json", b"{}")
    (tmp_path / "share").rename(tmp_path / "away")
    if created_at is None:
        (tmp_path / "share" / "peers").mkdir(parents=True)
    else:
        begun(tmp_path / "share", created_at)
    reads = (lambda: store.get("experiment.json", 100), lambda: store.list("peers"), lambda: store.stat("peers"))
    for call in (*(lambda write=write: write(store) for write in WRITES.values()), *reads):  # type: ignore[misc]
        with pytest.raises(StoreError) as refusal:
            call()
        assert refusal.value.astray is astray
    assert list((tmp_path / "share").rglob("*anna*")) == []
    shutil.rmtree(tmp_path / "share")
    (tmp_path / "away").rename(tmp_path / "share")
    store.put("peers/anna.json", b"{}")
