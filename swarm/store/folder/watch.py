"""Hints of a folder store: an event of the file system says that something may have changed, so list it again.

    watcher's event, start, failure or end ─▶ one hint

    rollouts/                 given, so watched
      round_9/ round_8/ ...   the newest, by the kernel's own time of change
        stage_0/ ...          the same
      round_5/stage_0/        named as what matters now: watched if it is there, however many are newer

Events get lost (new folders, overflowed queues), so a hint also comes after every failure of the watcher, which is
restarted with back-off. Where they never come, as the kind of file system says, or as it turns out, folders are polled.

A recursive watch would follow a stranger's link into a big tree, take a watch for every folder of weeks, and miss the
files of folders that are just being made. So each folder is watched by itself, links and odd names are left out, and
whoever fills the folder with folders gets no more than these watches.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import watchfiles
from anyio import to_thread

from swarm.logs import get_logger
from swarm.store.folder.beneath import Within, is_folder, opened_folder
from swarm.store.folder.filesystem import filesystem_of
from swarm.store.folder.polling import poll, times_of_change
from swarm.store.health import NEWEST_WATCHED

logger = get_logger(__name__)

DEBOUNCE_MS, STEP_MS = 50, 2
"""Measured: 3 ms on a quiet folder, 5 on a busy one, for 1.4 % of a core. A step of 10 gave 13 and 19 ms for 0.7 %, one
of 1 gave 2 ms for 2.2 %, and the defaults 68 and 1,619 ms."""
RETURN_MS = 200
"""How often the watching thread comes up for air: only then it notices that it is to end. No event is lost by it."""
OPTIONS: dict[str, Any] = {
    "watch_filter": None,
    "debounce": DEBOUNCE_MS,
    "step": STEP_MS,
    "rust_timeout": RETURN_MS,
    "yield_on_timeout": True,
}
"""Of watchfiles, as nodes watch and as the doctor tries it."""
BACK_OFF_FIRST, BACK_OFF_MOST = 1.0, 60.0
RESTART_LEAST = 0.05
"""Seconds between two starts of the watcher for the sake of new folders, should somebody make them by the thousand."""
SILENCE_LEAST = 1.0
"""Seconds that an event may be late before it counts as one that did not come."""
_PANIC = "PanicException"
"""What Rust's panics come as: no Exception, and of a type that cannot be imported."""


async def watch(
    roots: Sequence[Within],
    interval: float,
    hint: Callable[[], None],
    make: Callable[[Within], object],
    among_them: Callable[[], Sequence[Within]] = tuple,
) -> None:
    """Call `hint` after events, starts, failures and ends of the watcher; as Store.watch.

    Args:
        make: makes a folder that is missing, or not; blocking.
    """
    place = await to_thread.run_sync(filesystem_of, roots[0].path)
    polling = partial(poll, partial(watched_folders, roots, make), among_them, interval, hint)
    if not place.delivers_events:
        logger.info("watch.listing_only", kind=place.kind, mount=place.mount, interval=interval)
        await polling()
    watcher = _Watcher(roots, hint, make, among_them)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_notice_silence, watcher, max(interval, SILENCE_LEAST), polling)
        await watcher.run()


class _Watcher:
    """The library's watcher, started anew when it failed, or when there are other folders to watch."""

    def __init__(
        self,
        roots: Sequence[Within],
        hint: Callable[[], None],
        make: Callable[[Within], object],
        among_them: Callable[[], Sequence[Within]],
    ) -> None:
        self._find = partial(watched_folders, roots, make)
        self._hint = hint
        self._among_them = among_them
        self.watched: frozenset[Path] = frozenset()
        """Empty while it does not watch."""
        self.heard = 0
        """Grows with every event and every start."""

    async def run(self) -> None:
        """Until cancelled."""
        pause, failed_at = BACK_OFF_FIRST, -math.inf
        while True:
            started = anyio.current_time()
            failure = await self._watch_once()
            self.watched = frozenset()
            self._hint()
            now = anyio.current_time()
            if not failure:
                await anyio.sleep(max(0.0, started + RESTART_LEAST - now))
                continue
            pause = BACK_OFF_FIRST if now - failed_at > 2 * BACK_OFF_MOST else pause
            failed_at = now
            logger.warning("watch.failed", error=failure, retry_in=pause)
            await anyio.sleep(pause)
            pause = min(pause * 2, BACK_OFF_MOST)

    async def _watch_once(self) -> str:
        """Watch until there are other folders to watch; returns what went wrong, if that ended it."""
        try:
            return await self._while_folders_stay()
        except Exception as error:  # noqa: BLE001 - the boundary of a library that fails in many ways; listing goes on
            return str(_root_of(error))
        except BaseException as error:
            if type(_root_of(error)).__name__ != _PANIC:
                raise
            return str(_root_of(error))

    async def _while_folders_stay(self) -> str:
        """Wake for every event until a folder came or went: "". Raises whatever the library does."""
        watched = await to_thread.run_sync(self._find, self._among_them())
        changes = watchfiles.awatch(*sorted(watched), recursive=False, **OPTIONS)
        async with aclosing(changes), anyio.create_task_group() as tasks:
            tasks.start_soon(self._catch_up, watched)  # runs when the next line waits: the watches are in place by then
            async for batch in changes:
                if batch:
                    self.heard += 1
                    self._hint()
                if not self.watched or await to_thread.run_sync(self._others_to_watch, batch, self._among_them()):
                    return ""
        return "the watcher ended by itself"

    async def _catch_up(self, watched: frozenset[Path]) -> None:
        """Find what came after the folders were listed and before they were watched."""
        self.heard += 1
        self.watched = watched
        self._hint()
        if await to_thread.run_sync(self._find, self._among_them()) != watched:
            self.watched = frozenset()

    def _others_to_watch(self, batch: set[tuple[watchfiles.Change, str]], among_them: Sequence[Within]) -> bool:
        """Whether one that matters now is there and not watched, or what `_other_folders` says. Blocking."""
        unwatched = (place for place in among_them if place.path not in self.watched)
        return any(is_folder(place) for place in unwatched) or _other_folders(batch, self.watched)


def watched_folders(
    roots: Sequence[Within], make: Callable[[Within], object], among_them: Sequence[Within] = ()
) -> frozenset[Path]:
    """The folders to watch now, with those among them that are named and there; roots that are missing are made.

    For a root that is not made either, the nearest folder above it is watched, where it or the way to it will appear.

    Blocking.

    Raises:
        OSError: a root cannot be made or read.
    """
    for root in roots:
        make(root)
    nearest = [_nearest(root) for root in roots]
    found = {*nearest, *filter(is_folder, among_them)}
    for root in (place for place in nearest if place in roots):
        for folder in _newest_in(root):
            found.add(folder)
            with contextlib.suppress(OSError):  # removed or replaced in between: not a folder to watch, then
                found.update(_newest_in(folder))
    return frozenset(place.path for place in found)


def _nearest(folder: Within) -> Within:
    """The folder, or the nearest one above it that is there and no link; the experiment's own in any case."""
    while folder.names and not is_folder(folder):
        folder = folder.parent
    return folder


def _newest_in(folder: Within) -> Iterator[Within]:
    changed_at: dict[str, int] = {}
    with opened_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False) and entry.name.isprintable():
                    changed_at[entry.name] = entry.stat(follow_symlinks=False).st_ctime_ns
    return (folder / name for name in sorted(changed_at, key=changed_at.__getitem__)[-NEWEST_WATCHED:])


def _other_folders(batch: set[tuple[watchfiles.Change, str]], watched: frozenset[Path]) -> bool:
    """Whether a folder came, or a watched one went; where it came back, it is another one. Blocking."""
    for change, path in batch:
        if change == watchfiles.Change.deleted and Path(path) in watched:
            return True
        if change == watchfiles.Change.added and Path(path) not in watched and _may_be_new_folder(path):
            return True
    return False


def _may_be_new_folder(path: str) -> bool:
    """True for a folder, links not followed; what is named as a file is not looked at. Blocking."""
    try:
        return not path.endswith(".json") and stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _root_of(error: BaseException) -> BaseException:
    """What the library raised, within task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _notice_silence(watcher: _Watcher, interval: float, polling: Callable[[], Awaitable[None]]) -> None:
    """Say once that names come and go in watched folders, and no event tells of it, and look at them from then on."""
    while True:
        heard, watched = watcher.heard, watcher.watched
        before = await to_thread.run_sync(times_of_change, watched)
        await anyio.sleep(interval)
        changed = await to_thread.run_sync(times_of_change, watched) != before
        await anyio.sleep(interval)
        if changed and watcher.heard == heard and watcher.watched:
            logger.warning("watch.silent", folders=len(watched), interval=interval)
            await polling()
