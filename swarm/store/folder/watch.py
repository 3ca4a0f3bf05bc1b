"""Hints of a folder store: an event of the file system says that something may have changed, so list it again.

    watcher's event, start, failure or end ─▶ one hint
    an event of the writer's own file         ─▶ none: what it wrote itself is no news to it
    a folder that went, or became another one ─▶ the watcher starts anew, as for a folder that came
    no new name for CALM_AFTER                ─▶ it starts anew as one that looks seldom, until the next one
    names come by the dozen                   ─▶ it ends, and folders are polled for BUSY_LASTS

    rollouts/                 given, so watched
      round_9/ round_8/ ...   the newest, by the kernel's own time of change
        stage_0/ ...          the same
      round_5/stage_0/        named as what matters now: watched if it is there, however many are newer

Events get lost (new folders, overflowed queues), so a hint also comes after every failure of the watcher. It is
restarted with back-off, and folders are polled meanwhile. A folder that goes while it is about to be watched is no
failure. Where events never come, as the kind of file system says, or as it turns out, folders are polled for good.

A recursive watch would follow a stranger's link into a big tree, take a watch for every folder of weeks, and miss the
files of folders that are just being made. So each folder is watched by itself, links and odd names are left out, and
whoever fills the folder with folders gets no more than these watches.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import watchfiles
from anyio import to_thread

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.store.base import MOST_NAMES
from swarm.store.folder.beneath import Within, is_folder, opened_folder
from swarm.store.folder.filesystem import filesystem_of
from swarm.store.folder.inotify import cause_and_remedy
from swarm.store.health import NEWEST_WATCHED

logger = get_logger(__name__)

OPTIONS: dict[str, Any] = {"watch_filter": None, "debounce": 50, "yield_on_timeout": True}
QUICK: dict[str, Any] = {"step": 2, "rust_timeout": 200}
"""Milliseconds between two looks at what the kernel told, and after which a batch is given in any case. Measured: 3 ms
on a quiet folder, 5 on a busy one, for 1.4 % of a core. A step of 10 gave 13 and 19 ms for 0.7 %, one of 1 gave 2 ms
for 2.2 %, and the defaults 68 and 1,619 ms."""
CALM: dict[str, Any] = {"step": 250, "rust_timeout": 2_000}
"""The same while nothing happens: a node may wait for hours. What ends a quiet minute is told an eighth of a
second later."""
CALM_AFTER = 60.0
"""Seconds without an event of a name that had none before: heartbeats are written again and again. After five of them
each node of a swarm with rounds of six seconds lost a tenth of one in each round."""
LOOK_APART, LOOK_APART_CALM = 1.0, 5.0
"""Seconds between two looks for folders that are not watched, of which no event told."""
MOST_TOLD = 4096
"""Names that had one; strangers choose them."""
BACK_OFF_FIRST, BACK_OFF_MOST = 1.0, 60.0
HEALTHY = 30.0
"""Seconds that a watcher has to watch for its next failure to count as a first one."""
RESTART_LEAST = 0.05
"""Seconds between two starts of the watcher for other folders, should somebody make them by the thousand."""
BUSY, BUSY_LASTS = 32, 3.0
"""Names of one batch after which folders are looked at every SHORTEST in place of being watched, and for how many
seconds: each event wakes a thread of the library, those of 1,000 files for 40 ms in all."""
VANISHING_MOST = 10.0
"""Seconds without a watch for which folders that went before they were watched are no failure."""
SILENCE_LEAST = 4.0
"""Seconds that an event may be late before it counts as one that did not come. Meanwhile the folder is listed."""
_PANIC = "PanicException"
"""What Rust's panics come as: no Exception, and of a type that cannot be imported."""


async def watch(
    roots: Sequence[Within],
    interval: float,
    hint: Callable[[], None],
    make: Callable[[Within], object],
    among_them: Callable[[], Sequence[Within]] = tuple,
    own: str | None = None,
) -> None:
    """Call `hint` after events, starts, failures and ends of the watcher; as Store.watch.

    Args:
        make: makes a folder that is missing, or not; blocking.
        own: name of the files that the caller itself writes.
    """
    place = await to_thread.run_sync(filesystem_of, roots[0].path)
    find = partial(watched_folders, roots, make, Newest())
    polling = partial(poll, find, among_them, interval, hint)
    if not place.delivers_events:
        logger.info("watch.listing_only", kind=place.kind, mount=place.mount, interval=interval)
        await polling()
    watcher = _Watcher(find, hint, among_them, polling, interval, own)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_notice_silence, watcher, max(interval, SILENCE_LEAST), polling)
        await watcher.run()


class _Watcher:
    """The library's watcher, started anew when it failed, or when there are other folders to watch."""

    def __init__(
        self,
        find: Callable[[Sequence[Within]], frozenset[Path]],
        hint: Callable[[], None],
        among_them: Callable[[], Sequence[Within]],
        polling: Callable[[], Awaitable[None]],
        interval: float,
        own: str | None,
    ) -> None:
        self._own = own
        self._find = find
        self._hint = hint
        self._among_them = among_them
        self._polling = polling
        self._meanwhile = f"folders are looked at every {min(SHORTEST, interval):g} to {interval:g} s"
        self._vanishing_since: float | None = None
        """When a folder first went before it was watched, since watches were last in place."""
        self.watched: Mapping[Path, tuple[int, int]] = {}
        """Path -> which folder was there when it was to be watched; empty while it does not watch."""
        self.heard = 0
        """Grows with every event and every start."""
        self._told: set[str] = set()
        """Paths that had an event."""
        self._news_at = self._looked_at = anyio.current_time()
        self._calm = self._busy = False

    async def run(self) -> None:
        """Watches until cancelled."""
        pause, resumed = BACK_OFF_FIRST, anyio.current_time()
        while True:
            started = anyio.current_time()
            failure = await self._watch_once()
            self.watched = {}
            self._hint()
            if self._busy:
                with anyio.move_on_after(BUSY_LASTS):
                    await poll(self._find, self._among_them, SHORTEST, self._hint)
            if not failure:
                await anyio.sleep(max(0.0, started + RESTART_LEAST - anyio.current_time()))
                continue
            pause = BACK_OFF_FIRST if anyio.current_time() - resumed > HEALTHY else pause
            cause, remedy = await to_thread.run_sync(cause_and_remedy, failure)
            more = {"remedy": remedy} if remedy else {}
            logger.warning("watch.failed", error=cause, **more, retry_in=pause, meanwhile=self._meanwhile)
            with anyio.move_on_after(pause):
                await self._polling()
            pause, resumed = min(pause * 2, BACK_OFF_MOST), anyio.current_time()

    async def _watch_once(self) -> str:
        """Watch until there are other folders to watch; returns what went wrong, if that ended it."""
        try:
            return await self._while_folders_stay()
        except Exception as error:  # noqa: BLE001 - the boundary of a library that fails in many ways; listing goes on
            cause = _root_of(error)
        except BaseException as error:
            cause = _root_of(error)
            if type(cause).__name__ != _PANIC:
                raise
        return "" if isinstance(cause, FileNotFoundError) and self._may_vanish() else str(cause)

    def _may_vanish(self) -> bool:
        """Tells whether a folder that went before it was watched is an event like any other: not where nothing else
        happens, as while the place itself is gone."""
        now = anyio.current_time()
        since = self._vanishing_since = now if self._vanishing_since is None else self._vanishing_since
        return now - since < VANISHING_MOST

    async def _while_folders_stay(self) -> str:
        """Wake for every event until a folder came or went, or another pace is due: "". Raises as the library does."""
        self._busy = False
        to_watch, stop = await to_thread.run_sync(self._found, self._among_them()), anyio.Event()
        pace = CALM if self._calm else QUICK
        changes = watchfiles.awatch(*sorted(to_watch), recursive=False, stop_event=stop, **OPTIONS, **pace)
        async with aclosing(changes), anyio.create_task_group() as tasks:
            tasks.start_soon(_set_when_cancelled, stop)
            tasks.start_soon(
                self._catch_up, to_watch
            )  # runs when the next line waits: the watches are in place by then
            async for events in changes:
                self.heard += bool(events)
                batch = {event for event in events if os.path.basename(event[1]) != self._own}
                if batch:
                    self._hint()
                    self._note_news({path for _, path in batch})
                self._busy = len(batch) >= BUSY
                others = self._busy or not self.watched or await self._others_to_watch(batch)
                calm = anyio.current_time() - self._news_at >= CALM_AFTER
                if others or calm != self._calm:
                    self._calm = calm
                    tasks.cancel_scope.cancel()
                    return ""
            tasks.cancel_scope.cancel()
        return "the watcher ended by itself"

    def _note_news(self, paths: set[str]) -> None:
        if paths <= self._told:
            return
        self._news_at = anyio.current_time()
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told |= paths

    def _found(self, among_them: Sequence[Within]) -> Mapping[Path, tuple[int, int]]:
        """Finds the folders that are to be watched now. Blocking; raises OSError."""
        return which_folders(self._find(among_them))

    async def _catch_up(self, watched: Mapping[Path, tuple[int, int]]) -> None:
        """Find what came or went after the folders were listed and before they were watched."""
        self.heard += 1
        self.watched, self._vanishing_since = watched, None
        self._hint()
        if await to_thread.run_sync(self._found, self._among_them()) != watched:
            self.watched = {}

    async def _others_to_watch(self, batch: set[tuple[watchfiles.Change, str]]) -> bool:
        """Tells whether a folder is there that matters now and is not watched, or one came, or a watched one went;
        where that came back, it is another one. Events of files alone have it looked only so often."""
        others = {change for change in batch if not change[1].endswith(".json")}
        apart = LOOK_APART_CALM if self._calm else LOOK_APART
        if not others and anyio.current_time() - self._looked_at < apart:
            return False
        self._looked_at = anyio.current_time()
        return await to_thread.run_sync(self._find_others, others, self._among_them())

    def _find_others(self, batch: set[tuple[watchfiles.Change, str]], among_them: Sequence[Within]) -> bool:
        """Blocking."""
        if any(place.path not in self.watched and is_folder(place) for place in among_them):
            return True
        deleted, added = watchfiles.Change.deleted, watchfiles.Change.added
        return any(
            (change == deleted and Path(path) in self.watched)
            or (change == added and _is_folder_at(path) and Path(path) not in self.watched)
            for change, path in batch
        )


async def _set_when_cancelled(stop: anyio.Event) -> None:
    """Ends the library's thread: who is cancelled waits for it, and is told only when it has ended."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def which_folders(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Device and number of each folder, without those that are gone. Blocking."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            found[path] = status.st_dev, status.st_ino
    return found


class Newest:
    """Finds the folders in a root that changed last, again and again, without looking at each of weeks of rounds.

    A root that grows is read whole, and of its names those are looked at that are new or were the newest before. So a
    folder that was old and changes once more is not found: that is what listing is for.
    """

    def __init__(self) -> None:
        self._before: dict[Within, tuple[frozenset[str], frozenset[str]]] = {}
        """Root -> the names in it, and the newest of its folders."""

    def __call__(self, root: Within) -> list[Within]:
        """Blocking. Raises OSError."""
        names, newest = self._before.get(root, (frozenset[str](), frozenset[str]()))
        with opened_folder(root) as descriptor:
            with os.scandir(descriptor) as entries:
                now = frozenset(entry.name for entry in islice(entries, MOST_NAMES))
            found = _newest_of((now - names) | (now & newest), descriptor)
            if len(found) < NEWEST_WATCHED:
                found = _newest_of(now, descriptor)
        self._before[root] = now, frozenset(found)
        return [root / name for name in found]


def watched_folders(
    roots: Sequence[Within],
    make: Callable[[Within], object],
    newest: Newest | None = None,
    among_them: Sequence[Within] = (),
) -> frozenset[Path]:
    """Returns the folders to watch now, with those among them that are named and there; roots that are missing are
    made.

    For a root that is not made either, the nearest folder above it is watched, where it or the way to it will appear.

    Blocking.

    Args:
        newest: knows the roots from the time before.

    Raises:
        OSError: a root cannot be made or read.
    """
    newest = newest or Newest()
    for root in roots:
        make(root)
    nearest = [_nearest(root) for root in roots]
    found = {*nearest, *filter(is_folder, among_them)}
    for root in (place for place in nearest if place in roots):
        for folder in newest(root):
            found.add(folder)
            with contextlib.suppress(OSError):  # removed or replaced in between: not a folder to watch, then
                found.update(Newest()(folder))
    return frozenset(place.path for place in found)


def _nearest(folder: Within) -> Within:
    """Returns the folder, or the nearest one above it that is there and no link; the experiment's own in any case."""
    while folder.names and not is_folder(folder):
        folder = folder.parent
    return folder


def _newest_of(names: Iterable[str], folder: int) -> list[str]:
    """Returns those of some names in an open folder that are folders and changed last, the newest last.

    The kernel's clock may stand for 10 ms: of folders that changed in one tick `round_10` is newer than `round_9`.
    """
    changed_at: dict[str, int] = {}
    for name in filter(str.isprintable, names):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                changed_at[name] = found.st_ctime_ns
    return sorted(changed_at, key=lambda name: (changed_at[name], len(name), name))[-NEWEST_WATCHED:]


def _is_folder_at(path: str) -> bool:
    """Tells whether a path is a folder, links not followed. Blocking."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _root_of(error: BaseException) -> BaseException:
    """Returns the error within nested exception groups that the library raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _notice_silence(watcher: _Watcher, interval: float, polling: Callable[[], Awaitable[None]]) -> None:
    """See that the watched folders are those at the watched paths, as they are no more once a share was unmounted or a
    folder above them replaced: no event tells of it. Say once that names come and go in them, and no event tells of
    it, and look at them from then on."""
    while True:
        heard, watched = watcher.heard, watcher.watched
        _, before = await to_thread.run_sync(_folders_and_times, watched)
        await anyio.sleep(interval)
        there, now = await to_thread.run_sync(_folders_and_times, watched)
        if watched is watcher.watched and there != watched:
            watcher.watched = {}
        await anyio.sleep(interval)
        if now != before and watcher.heard == heard and watcher.watched:
            logger.warning("watch.silent", folders=len(watched), interval=interval)
            await polling()


def _folders_and_times(paths: Iterable[Path]) -> tuple[dict[Path, tuple[int, int]], dict[Path, int]]:
    return which_folders(paths), times_of_change(paths)


# ── where no events arrive ───────────────────────────────────────────────────────────────────────────────────────────
SHORTEST = 0.2
"""Seconds between two looks when something has just changed."""
GROWTH = 1.5
SETTLED = 2.0
"""Seconds: the coarsest time of change that a file system keeps, that of FAT."""
SHARE = 0.1
"""Share of the time that looking may take."""


async def poll(
    find: Callable[[Sequence[Within]], frozenset[Path]],
    among_them: Callable[[], Sequence[Within]],
    interval: float,
    hint: Callable[[], None],
) -> None:
    """Call `hint` when a name came or went in one of the folders; until cancelled.

    Args:
        find: the folders to look at, with these among them; blocking, raises OSError and StoreError.
        interval: the longest pause.
    """
    seen: dict[Path, int] = {}
    among: tuple[Within, ...] = ()
    pause, unsettled = SHORTEST, -math.inf
    while True:
        before, among = among, tuple(among_them())
        began = time.monotonic()
        changed, seen = await to_thread.run_sync(_look, find, seen, among, among != before)
        took = time.monotonic() - began
        if changed:
            unsettled = anyio.current_time() + SETTLED
        if anyio.current_time() <= unsettled:
            hint()
        pause = SHORTEST if changed else min(pause * GROWTH, interval)
        await anyio.sleep(max(pause, min(took / SHARE, interval)))


def _look(
    find: Callable[[Sequence[Within]], frozenset[Path]], before: dict[Path, int], among: tuple[Within, ...], anew: bool
) -> tuple[bool, dict[Path, int]]:
    """Tells whether a name came or went since the look before, and in which folders the next one looks. Blocking.

    Args:
        anew: there may be other folders to look at, whatever came or went.
    """
    now = times_of_change(before)
    changed = not now or now != before
    if changed or anew:
        with contextlib.suppress(OSError, StoreError):  # a root is gone for a while
            now = times_of_change(find(among))
    return changed, now


def times_of_change(folders: Iterable[Path]) -> dict[Path, int]:
    """Returns when each folder that is there last got or lost a name, in its file system's nanoseconds."""
    found = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            found[folder] = os.lstat(folder).st_mtime_ns
    return found
