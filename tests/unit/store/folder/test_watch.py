"""Wake-ups come by events and, whatever becomes of those, by the interval."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import watchfiles
from anyio.streams.memory import MemoryObjectReceiveStream
from structlog.testing import capture_logs

from swarm.store.folder import watch
from swarm.store.folder.beneath import Within, make_folder
from swarm.store.folder.store import FolderStore
from swarm.store.folder.watch import Newest, watched_folders
from swarm.store.health import NEWEST_WATCHED, FileSystem
from swarm.store.wake_ups import wake_ups
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio

NEVER = 3600.0
SOON = 0.05
Wakes = MemoryObjectReceiveStream[None]


def woken(store: FolderStore, prefix: str, interval: float, **more: Any) -> AbstractAsyncContextManager[Wakes]:
    """As whoever works with a store is woken."""
    return wake_ups(store, [prefix], interval, anyio.sleep, hints=True, **more)


@asynccontextmanager
async def hints(
    folder: Path | Within, interval: float = NEVER, make: Callable[[Within], object] = make_folder
) -> AsyncIterator[Wakes]:
    """The hints alone, merged."""
    root = folder if isinstance(folder, Within) else Within(folder)
    send, receive = anyio.create_memory_object_stream[None](1)

    def hint() -> None:
        with suppress(anyio.WouldBlock):
            send.send_nowait(None)

    async with send, receive, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.watch, [root], interval, hint, make)
        yield receive
        tasks.cancel_scope.cancel()


async def wait_for(file: Path, wakes: Wakes) -> None:
    """Look once per wake-up until the file is there."""
    with anyio.fail_after(PATIENCE):
        async for _ in wakes:
            if await anyio.Path(file).exists():
                return


async def appears(file: Path, wakes: Wakes) -> None:
    """Make a file, and be woken for it."""
    await anyio.Path(file).touch()
    await wait_for(file, wakes)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what nobody is told of."""
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


class Watcher:
    """Stands in for watchfiles.awatch: each call does the next of these lists of things."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *calls: str) -> None:
        self.left = list(calls)
        self.waiting = anyio.Event()
        self.go_on = anyio.Event()
        monkeypatch.setattr(watchfiles, "awatch", self)
        monkeypatch.setattr(watch, "BACK_OFF_FIRST", 0.001)

    async def __call__(self, *folders: Path, **options: object) -> AsyncIterator[set[tuple[watchfiles.Change, str]]]:
        for does in (self.left.pop(0) if self.left else "sleep").split():
            match does:
                case "fail":
                    raise RuntimeError("no inotify instances left")
                case "panic":
                    raise type("PanicException", (BaseException,), {})("called `Option::unwrap()` on a `None` value")
                case "event":
                    yield {(watchfiles.Change.added, str(folders[0] / "anna.json"))}
                case "flood":
                    yield {(watchfiles.Change.added, str(folders[0] / f"{n}.json")) for n in range(2 * watch.BUSY)}
                case "wait":
                    self.waiting.set()
                    await self.go_on.wait()
                case "sleep":
                    self.waiting.set()
                    await anyio.sleep_forever()


async def drain(wakes: Wakes) -> int:
    """Take what is waiting, and say how much it was."""
    taken = 0
    while wakes.statistics().current_buffer_used:
        await wakes.receive()
        taken += 1
    return taken


@pytest.mark.parametrize(
    ("healthy", "pauses"), [(NEVER, [0.001, 0.002, 0.004, 0.008]), (0.0, [0.001] * 4)], ids=["never", "in between"]
)
async def test_a_failed_watcher_wakes_is_logged_and_restarted_later_and_later_unless_it_was_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, healthy: float, pauses: list[float]
) -> None:
    watcher = Watcher(monkeypatch, "fail", "fail", "end", "fail", "sleep")
    monkeypatch.setattr(watch, "HEALTHY", healthy)
    with capture_logs() as logs:
        async with hints(tmp_path) as wakes:
            with anyio.fail_after(PATIENCE):
                await watcher.waiting.wait()
                await wakes.receive()
    died, ended = "no inotify instances left", "the watcher ended by itself"
    assert [(line["event"], line["error"]) for line in logs] == [("watch.failed", e) for e in (died, died, ended, died)]
    assert [line["retry_in"] for line in logs] == pauses


@pytest.mark.parametrize(("ended_by", "pause"), [("fail", "BACK_OFF_FIRST"), ("flood", "BUSY_LASTS")])
async def test_while_a_watcher_that_failed_or_was_flooded_waits_folders_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_by: str, pause: str
) -> None:
    Watcher(monkeypatch, ended_by)
    monkeypatch.setattr(watch, pause, NEVER)
    async with hints(tmp_path) as wakes:
        for number in range(3):
            await appears(tmp_path / f"{number}.json", wakes)


@pytest.mark.parametrize("call", ["wait event sleep", "wait fail", "wait end", "wait panic"])
async def test_every_event_failure_and_end_of_the_watcher_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    watcher = Watcher(monkeypatch, call)
    monkeypatch.setattr(watch, "BACK_OFF_FIRST", NEVER)
    async with hints(tmp_path) as wakes:
        with anyio.fail_after(PATIENCE):
            await watcher.waiting.wait()
            assert await drain(wakes) == 1  # the one at the start
            watcher.go_on.set()
            await wakes.receive()


async def test_a_folder_in_which_names_come_by_the_dozen_is_watched_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event wakes the library's thread, whoever makes it."""
    monkeypatch.setattr(watch, "BUSY_LASTS", 0.5)
    watcher, began = Watcher(monkeypatch, "flood fail", "sleep"), anyio.current_time()
    with capture_logs() as logs:
        async with hints(tmp_path):
            with anyio.fail_after(PATIENCE):
                await watcher.waiting.wait()
    assert anyio.current_time() - began >= watch.BUSY_LASTS
    assert logs == []


async def test_lesson_a_file_name_that_is_not_utf8_kills_the_watcher_files_are_found_all_the_same(
    tmp_path: Path,
) -> None:
    async with woken(FolderStore(tmp_path.parent, "test"), tmp_path.name, SOON) as wakes:
        (tmp_path / os.fsdecode(b"\xff\xfe.json")).touch()
        for number in range(3):
            await appears(tmp_path / f"{number}.json", wakes)


async def test_cancellation_leaves_no_thread_and_no_descriptor_behind(tmp_path: Path) -> None:
    async def watch_a_little() -> None:
        async with hints(tmp_path) as wakes:
            await wakes.receive()  # the one at the start
            await anyio.Path(tmp_path / "anna.json").touch()
            await wakes.receive()  # the watcher's

    await watch_a_little()  # threads of the pool and what else is opened once stay
    threads = threading.active_count()
    for _ in range(10):
        await watch_a_little()
    assert threading.active_count() < threads + 5  # the pool may grow by what works at the same time, and no further
    await until(lambda: not watchers())  # they are closed by a thread of the library, a moment later


@pytest.fixture
def paces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The step of each start of the library's watcher."""
    awatch, found = watchfiles.awatch, list[int]()

    def remembered(*folders: Path, **options: Any) -> Any:
        found.append(options["step"])
        return awatch(*folders, **options)

    monkeypatch.setattr(watchfiles, "awatch", remembered)
    monkeypatch.setattr(watch, "CALM_AFTER", 0.1)
    return found


async def test_while_nothing_happens_it_looks_seldom_still_wakes_and_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paces: list[int]
) -> None:
    monkeypatch.setitem(watch.CALM, "rust_timeout", round(1000 * NEVER))
    async with hints(tmp_path) as wakes:
        await until(lambda: len(paces) >= 2)
        for number in range(2):  # the second, of a batch that nobody waits for yet, is looked for at the restart
            await appears(tmp_path / f"{number}.json", wakes)
        await until(lambda: len(paces) >= 3)
    assert paces[:3] == [watch.QUICK["step"], watch.CALM["step"], watch.QUICK["step"]]


async def test_a_file_that_is_written_again_and_again_still_wakes_and_is_no_reason_to_look_often(
    tmp_path: Path, paces: list[int]
) -> None:
    heartbeat = anyio.Path(tmp_path / "anna.json")
    async with hints(tmp_path) as wakes:
        with anyio.fail_after(PATIENCE):
            while len(paces) < 2:
                await heartbeat.write_text("beats")
                await wakes.receive()
            for _ in range(5):
                await heartbeat.write_text("beats")
                await wakes.receive()
    assert paces == [watch.QUICK["step"], watch.CALM["step"]]


async def test_what_a_writer_writes_under_its_own_name_is_no_news_to_it_and_shows_that_events_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each heartbeat had the coordinator look at what it had just written."""
    monkeypatch.setattr(watch, "SILENCE_LEAST", SOON)
    alice, bob, prefix = FolderStore(tmp_path, "alice"), FolderStore(tmp_path, "bob"), "peers"
    for store, node in ((alice, "alice"), (bob, "bob")):
        store.put(f"{prefix}/{node}.json", b"0")
    with capture_logs() as logs:
        async with woken(alice, prefix, NEVER) as wakes:
            await until_watched(1)
            await anyio.sleep(4 * SOON)
            await drain(wakes)
            for beat in range(10):
                alice.put(f"{prefix}/alice.json", b"%d" % beat)
                await anyio.sleep(SOON)
            assert await drain(wakes) == 0
            bob.put(f"{prefix}/bob.json", b"1")
            with anyio.fail_after(PATIENCE):
                await wakes.receive()
    assert logs == []


# ── new folders, links, floods ──────────────────────────────────────────────────────────────────────────────────────
def watchers() -> list[str]:
    """What the kernel tells of each inotify instance of this process."""
    told = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was closed since the listing, as the listing's own always is
            if os.readlink(f"/proc/self/fd/{descriptor}") == "anon_inode:inotify":
                told.append(Path(f"/proc/self/fdinfo/{descriptor}").read_text())
    return told


def watches() -> int:
    """How many inotify watches this process holds."""
    return sum(instance.count("inotify wd:") for instance in watchers())


async def until_watched(count: int) -> None:
    await until(lambda: watches() == count)


async def test_files_in_new_folders_wake_without_the_interval(tmp_path: Path) -> None:
    async with hints(tmp_path) as wakes:
        for number in range(5):
            file = tmp_path / f"round_{number}" / "stage_0" / "anna.json"
            file.parent.mkdir(parents=True)
            await until_watched(1 + 2 * (number + 1))
            await drain(wakes)
            await appears(file, wakes)


async def test_a_folder_that_was_removed_and_made_again_is_watched_again(tmp_path: Path) -> None:
    (tmp_path / "round_0").mkdir()
    async with hints(tmp_path) as wakes:
        await until_watched(2)
        (tmp_path / "round_0").rmdir()
        (tmp_path / "round_0").mkdir()
        with anyio.fail_after(PATIENCE):
            while True:  # until a file in the new one wakes; the events of the folders themselves are behind us by then
                await wakes.receive()
                await drain(wakes)
                if watches() == 2:
                    break
        await appears(tmp_path / "round_0" / "anna.json", wakes)


async def test_folders_that_go_before_they_are_watched_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a cleanup takes old rounds away meanwhile, five times in a row."""
    for number in range(6):
        (tmp_path / f"round_{number}").mkdir()
    gone = iter(range(5))

    def found(*arguments: Any) -> frozenset[Path]:
        listed = watched_folders(*arguments)
        with suppress(StopIteration):
            (tmp_path / f"round_{next(gone)}").rmdir()
        return listed

    monkeypatch.setattr(watch, "watched_folders", found)
    monkeypatch.setattr(watch, "which_folders", lambda paths: dict.fromkeys(paths, (0, 0)))
    with capture_logs() as logs:
        async with hints(tmp_path) as wakes:
            await until_watched(2)
            await drain(wakes)
            await appears(tmp_path / "round_5" / "anna.json", wakes)
    assert logs == []


async def test_a_place_that_is_gone_is_said_and_watched_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event tells of it: the folder above was replaced, as where a share is unmounted and mounted again."""
    monkeypatch.setattr(watch, "SILENCE_LEAST", SOON)
    monkeypatch.setattr(watch, "BACK_OFF_FIRST", SOON)
    place, elsewhere = tmp_path / "share", tmp_path / "elsewhere"
    store = FolderStore(place / "experiments" / "demo", "test")
    store.put("rollouts/round_0/stage_0/anna.json", b"{}")
    with capture_logs() as logs:
        async with woken(store, "rollouts", SOON) as wakes:
            await until_watched(3)
            place.rename(elsewhere)
            with anyio.fail_after(PATIENCE):
                while not logs:
                    await wakes.receive()
            elsewhere.rename(place)
            await until_watched(3)
            place.rename(elsewhere)
            shutil.copytree(elsewhere, place)  # back, and another one
            copied = place / "experiments" / "demo" / "rollouts" / "round_0" / "stage_0"
            with anyio.fail_after(PATIENCE):
                while not any(f"ino:{copied.stat().st_ino:x} " in instance for instance in watchers()):
                    await wakes.receive()
    assert {line["event"] for line in logs} == {"watch.failed"}


async def test_a_link_to_a_big_tree_takes_no_watch_neither_at_the_start_nor_later(tmp_path: Path) -> None:
    root, big = tmp_path / "rollouts", tmp_path / "big"
    for number in range(50):
        (big / f"{number}" / "below").mkdir(parents=True)
    (root / "round_0").mkdir(parents=True)
    (root / "linked before").symlink_to(big)
    (root / "round_0" / "linked").symlink_to(big)
    async with hints(root):
        await until_watched(2)
        (root / "linked later").symlink_to(big)
        (tmp_path / "trap").mkdir()
        (tmp_path / "trap" / "linked").symlink_to(big)
        (tmp_path / "trap").rename(root / "round_1")
        await until_watched(3)


def test_whoever_floods_the_folder_with_folders_gets_few_watches(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"round_{number}" / "a" / "too deep").mkdir(parents=True)
    (tmp_path / os.fsdecode(b"round_\xff")).mkdir()
    watched = watched_folders([Within(tmp_path)], make_folder)
    assert len(watched) == 1 + 2 * NEWEST_WATCHED
    (tmp_path / "round_100").mkdir()
    assert tmp_path / "round_100" in watched_folders([Within(tmp_path)], make_folder)


async def test_a_folder_that_matters_now_is_watched_however_many_are_newer(tmp_path: Path) -> None:
    stages = [tmp_path / f"round_{number}" / "stage_0" for number in range(2 * NEWEST_WATCHED)]
    for stage in stages:
        stage.mkdir(parents=True)
    old = [stage for stage in stages if stage.parent not in watched_folders([Within(tmp_path)], make_folder)]
    matters: list[str] = []
    async with woken(FolderStore(tmp_path.parent, "test"), tmp_path.name, NEVER, among_them=lambda: matters) as wakes:
        await until_watched(1 + 2 * NEWEST_WATCHED)
        for stage in old[:2]:
            matters[:] = [f"{tmp_path.name}/{stage.relative_to(tmp_path)}"]
            await until_watched(1 + 2 * NEWEST_WATCHED + 1)
            await drain(wakes)
            await appears(stage / "anna.json", wakes)


# ── where events do not come ────────────────────────────────────────────────────────────────────────────────────────
async def test_where_no_events_arrive_folders_are_polled_long_before_the_interval_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "filesystem_of", lambda _: FileSystem("nfs4", "/mnt/swarm", False))
    monkeypatch.setattr(watchfiles, "awatch", lambda *_, **__: pytest.fail("it was watched"))
    with capture_logs() as logs:
        async with hints(tmp_path) as wakes:
            for number in range(2):
                file = tmp_path / f"round_{number}" / "anna.json"
                file.parent.mkdir()
                await wait_for(file.parent, wakes)
                await appears(file, wakes)
    assert logs == [
        {"event": "watch.listing_only", "kind": "nfs4", "mount": "/mnt/swarm", "interval": NEVER, "log_level": "info"}
    ]


async def test_a_polled_place_that_is_gone_for_a_while_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "filesystem_of", lambda _: FileSystem("fuse", "/mnt/swarm", False))
    store = FolderStore(tmp_path / "demo", "test")
    store.put("rollouts/round_0/stage_0/anna.json", b"{}")
    async with woken(store, "rollouts", SOON) as wakes:
        (tmp_path / "demo").rename(tmp_path / "away")
        with anyio.fail_after(PATIENCE):
            for _ in range(20):
                await wakes.receive()
        (tmp_path / "away").rename(tmp_path / "demo")
        store.put("rollouts/round_1/stage_0/anna.json", b"{}")
        await wait_for(tmp_path / "demo" / "rollouts" / "round_1" / "stage_0" / "anna.json", wakes)


async def test_where_events_turn_out_not_to_arrive_folders_are_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watcher(monkeypatch, "sleep")
    monkeypatch.setattr(watch, "SILENCE_LEAST", SOON)
    with capture_logs() as logs:
        async with hints(tmp_path, SOON) as wakes:
            with anyio.fail_after(PATIENCE):
                for number in itertools.count():
                    (tmp_path / f"{number}.json").touch()
                    if logs:
                        break
                    await anyio.sleep(0.01)
            await appears(tmp_path / "last.json", wakes)
    assert [line["event"] for line in logs] == ["watch.silent"]


async def test_a_look_that_takes_long_is_followed_by_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    paused, looks = list[float](), iter([0.0, 3.0, 10.0, 10.5])

    async def sleep(seconds: float) -> None:
        paused.append(round(seconds, 2))
        if len(paused) == 2:
            raise TimeoutError

    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    monkeypatch.setattr(anyio, "sleep", sleep)
    with pytest.raises(TimeoutError):
        await watch.poll(lambda among: frozenset(), tuple, 20.0, lambda: None)
    assert paused == [20.0, 5.0]


async def test_a_watcher_that_speaks_is_not_called_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENCE_LEAST", 0.3)
    with capture_logs() as logs:
        async with woken(FolderStore(tmp_path.parent, "test"), tmp_path.name, 0.3) as wakes:
            with anyio.move_on_after(0.9):
                for number in itertools.count():
                    await appears(tmp_path / f"{number}.json", wakes)
                    await anyio.sleep(0.02)
    assert logs == []


async def test_a_root_that_nobody_makes_is_watched_for_from_the_nearest_folder_above(tmp_path: Path) -> None:
    root = Within(tmp_path, ("experiments", "demo", "rollouts"))
    file = root.path / "round_0" / "ben.json"
    assert watched_folders([root], lambda folder: None) == {tmp_path}
    async with hints(root, make=lambda folder: None) as wakes:
        await wakes.receive()
        file.parent.mkdir(parents=True)
        await wakes.receive()
        file.write_bytes(b"{}")
        await wait_for(file, wakes)
    assert watched_folders([root], lambda folder: None) == {root.path, file.parent}


def test_a_watcher_that_asks_again_finds_the_newest_folders_and_looks_at_no_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (tmp_path / f"round_{number}").mkdir()
    newest, root = Newest(), Within(tmp_path)
    newest(root)
    looked: list[object] = []
    real = os.stat

    def counted(path: Any, *arguments: Any, **more: Any) -> os.stat_result:
        looked.append(path)
        return real(path, *arguments, **more)

    (tmp_path / "round_200").mkdir()
    monkeypatch.setattr(os, "stat", counted)
    found = newest(root)
    assert found[-1].name == "round_200"
    assert len(found) == NEWEST_WATCHED
    assert len(looked) == NEWEST_WATCHED + 1
    monkeypatch.undo()
    for place in found:
        place.path.rmdir()
    assert len(newest(root)) == NEWEST_WATCHED, "older ones take the place of those that went"
