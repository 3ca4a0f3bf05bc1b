"""Wake-ups come by events and, whatever becomes of those, by the interval."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import watchfiles
from anyio.streams.memory import MemoryObjectReceiveStream
from structlog.testing import capture_logs

from swarm.folder import watch
from swarm.folder.watch import wake_ups

NEVER = 3600.0
SOON = 0.05
Wakes = MemoryObjectReceiveStream[None]


async def wait_for(file: Path, wakes: Wakes) -> None:
    """Look once per wake-up until the file is there."""
    with anyio.fail_after(10):
        async for _ in wakes:
            if await anyio.Path(file).exists():
                return


class Watcher:
    """Stands in for watchfiles.awatch: each call does the next of these lists of things."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *calls: str) -> None:
        self.left = list(calls)
        self.waiting = anyio.Event()
        self.go_on = anyio.Event()
        monkeypatch.setattr(watchfiles, "awatch", self)
        monkeypatch.setattr(watch, "BACK_OFF_FIRST", 0.001)

    async def __call__(self, *folders: Path, **options: object) -> AsyncIterator[set[str]]:
        for does in (self.left.pop(0) if self.left else "sleep").split():
            match does:
                case "fail":
                    raise RuntimeError("no inotify instances left")
                case "event":
                    yield {"something changed"}
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


@pytest.mark.anyio
async def test_the_first_wake_up_comes_at_once_for_files_that_were_there_before(tmp_path: Path) -> None:
    async with wake_ups([tmp_path], NEVER, events=False) as wakes:
        with anyio.fail_after(5):
            await wakes.receive()


@pytest.mark.anyio
async def test_a_new_file_wakes_long_before_the_interval(tmp_path: Path) -> None:
    async with wake_ups([tmp_path / "rollouts"], NEVER) as wakes:
        with anyio.fail_after(10):
            while not (tmp_path / "rollouts").is_dir():  # missing folders are made
                await anyio.lowlevel.checkpoint()
            written = 0
            while written < 3:
                (tmp_path / "rollouts" / f"{written}.json").touch()
                await wakes.receive()
                written += 1


@pytest.mark.anyio
async def test_a_file_in_a_folder_that_was_just_made_is_found_within_the_interval(tmp_path: Path) -> None:
    async with wake_ups([tmp_path], SOON) as wakes:
        for number in range(20):
            file = tmp_path / f"round_{number}" / "stage_0" / "anna.json"
            file.parent.mkdir(parents=True)
            file.touch()
            await wait_for(file, wakes)


@pytest.mark.anyio
async def test_without_any_event_everything_is_found_by_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(monkeypatch)
    async with wake_ups([tmp_path], SOON, events=False) as wakes:
        for number in range(3):
            (tmp_path / f"{number}.json").touch()
            await wait_for(tmp_path / f"{number}.json", wakes)
    assert not watcher.waiting.is_set()


@pytest.mark.anyio
async def test_a_watcher_that_never_speaks_delays_nothing_beyond_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(monkeypatch, "sleep")
    async with wake_ups([tmp_path], SOON) as wakes:
        await watcher.waiting.wait()
        (tmp_path / "late.json").touch()
        await wait_for(tmp_path / "late.json", wakes)


@pytest.mark.anyio
async def test_a_failed_watcher_wakes_is_logged_and_restarted_later_and_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(monkeypatch, "fail", "fail", "end", "fail", "sleep")
    with capture_logs() as logs:
        async with wake_ups([tmp_path], NEVER) as wakes:
            with anyio.fail_after(10):
                await watcher.waiting.wait()
                await wakes.receive()
    assert [(line["event"], line["error"], line["retry_in"]) for line in logs] == [
        ("watch.failed", "no inotify instances left", pause) for pause in (0.001, 0.002, 0.008)
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("call", ["wait event sleep", "wait fail", "wait end"])
async def test_every_event_failure_and_end_of_the_watcher_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    watcher = Watcher(monkeypatch, call)
    monkeypatch.setattr(watch, "BACK_OFF_FIRST", NEVER)
    async with wake_ups([tmp_path], NEVER) as wakes:
        with anyio.fail_after(10):
            await watcher.waiting.wait()
            assert await drain(wakes) == 1  # the one at the start
            watcher.go_on.set()
            await wakes.receive()


@pytest.mark.anyio
async def test_lesson_a_file_name_that_is_not_utf8_kills_the_watcher_files_are_found_all_the_same(
    tmp_path: Path,
) -> None:
    async with wake_ups([tmp_path], SOON) as wakes:
        (tmp_path / os.fsdecode(b"\xff\xfe.json")).touch()
        for number in range(3):
            (tmp_path / f"{number}.json").touch()
            await wait_for(tmp_path / f"{number}.json", wakes)


@pytest.mark.anyio
async def test_wake_ups_that_nobody_took_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher(monkeypatch, "event " * 1000 + "sleep")
    async with wake_ups([tmp_path], NEVER) as wakes:
        with anyio.fail_after(30):
            await watcher.waiting.wait()
        assert await drain(wakes) == 1


@pytest.mark.anyio
async def test_cancellation_leaves_no_thread_and_no_descriptor_behind(tmp_path: Path) -> None:
    async def watch_a_little() -> None:
        async with wake_ups([tmp_path], NEVER) as wakes:
            await wakes.receive()  # the one at the start
            await anyio.Path(tmp_path / "anna.json").touch()
            await wakes.receive()  # the watcher's

    await watch_a_little()  # threads of the pool and what else is opened once stay
    threads = threading.active_count()
    for _ in range(3):
        await watch_a_little()
    assert threading.active_count() == threads
    with anyio.fail_after(10):
        while open_watchers():  # noqa: ASYNC110 - they are closed by a thread of the library, a moment later
            await anyio.sleep(0.01)


def open_watchers() -> int:
    """How many inotify instances this process has."""
    return sum(link == "anon_inode:inotify" for link in map(_target, os.listdir("/proc/self/fd")))


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # the listing's own is closed by now
        return ""
