"""Hints of a folder store: an event of the file system says that something may have changed, so list it again.

    watcher's event, start, failure or end ─▶ one hint, merged with those that nobody took yet

Events get lost (new folders, overflowed queues) or never come (network mounts), so a hint also comes after every
failure of the watcher, which is restarted with back-off.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import watchfiles
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from swarm.logs import get_logger
from swarm.store.folder.beneath import Place, Within
from swarm.store.folder.filesystem import filesystem_of
from swarm.store.folder.watched_folders import may_be_new_folder, times_of_change, watched_folders

logger = get_logger(__name__)

DEBOUNCE_MS, STEP_MS = 50, 10
"""Measured: 13 ms on a quiet folder and 19 ms on a busy one, where the defaults gave 68 and 1,619."""
RETURN_MS = 200
"""How often the watching thread comes up for air: only then it notices that it is to end. No event is lost by it."""
BACK_OFF_FIRST, BACK_OFF_MOST = 1.0, 60.0
RESTART_LEAST = 0.05
"""Seconds between two starts of the watcher for the sake of new folders, should somebody make them by the thousand."""
SILENCE_LEAST = 1.0
"""Seconds that an event may be late before it counts as one that did not come."""
_PANIC = "PanicException"
"""What Rust's panics come as: no Exception, and of a type that cannot be imported."""
Wakes = MemoryObjectReceiveStream[None]


@asynccontextmanager
async def hints(folders: Sequence[Place], interval: float, make: Callable[[Place], object]) -> AsyncIterator[Wakes]:
    """A stream that gives an item after events, starts, failures and ends of the watcher; as Store.hints.

    Args:
        make: makes a folder that is missing, or not; blocking.
    """
    send, receive = anyio.create_memory_object_stream[None](1)
    async with send, receive, anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, folders, interval, send, make)
        yield receive
        tasks.cancel_scope.cancel()


def _wake(send: MemoryObjectSendStream[None]) -> None:
    with contextlib.suppress(anyio.WouldBlock):  # one is waiting already: the reader will list everything anyway
        send.send_nowait(None)


async def _watch(
    folders: Sequence[Place],
    interval: float,
    send: MemoryObjectSendStream[None],
    make: Callable[[Place], object],
) -> None:
    first = folders[0]
    place = await to_thread.run_sync(filesystem_of, first.path if isinstance(first, Within) else first)
    if not place.delivers_events:
        logger.info("watch.listing_only", kind=place.kind, mount=place.mount, interval=interval)
        return
    watcher = _Watcher(folders, send, make)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_notice_silence, watcher, max(interval, SILENCE_LEAST))
        await watcher.run()


class _Watcher:
    """The library's watcher, started anew when it failed, or when there are other folders to watch."""

    def __init__(
        self, roots: Sequence[Place], send: MemoryObjectSendStream[None], make: Callable[[Place], object]
    ) -> None:
        self._find = partial(watched_folders, roots, make)
        self._send = send
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
            _wake(self._send)
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
        watched = await to_thread.run_sync(self._find)
        changes = watchfiles.awatch(
            *sorted(watched),
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            recursive=False,
            rust_timeout=RETURN_MS,
            yield_on_timeout=True,
        )
        async with aclosing(changes), anyio.create_task_group() as tasks:
            tasks.start_soon(self._catch_up, watched)  # runs when the next line waits: the watches are in place by then
            async for batch in changes:
                if batch:
                    self.heard += 1
                    _wake(self._send)
                if not self.watched or await to_thread.run_sync(_other_folders, batch, watched):
                    return ""
        return "the watcher ended by itself"

    async def _catch_up(self, watched: frozenset[Path]) -> None:
        """Find what came after the folders were listed and before they were watched."""
        self.heard += 1
        self.watched = watched
        _wake(self._send)
        if await to_thread.run_sync(self._find) != watched:
            self.watched = frozenset()


def _other_folders(batch: set[tuple[watchfiles.Change, str]], watched: frozenset[Path]) -> bool:
    """Whether a folder came, or a watched one went; where it came back, it is another one. Blocking."""
    for change, path in batch:
        if change == watchfiles.Change.deleted and Path(path) in watched:
            return True
        if change == watchfiles.Change.added and Path(path) not in watched and may_be_new_folder(path):
            return True
    return False


def _root_of(error: BaseException) -> BaseException:
    """What the library raised, within task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _notice_silence(watcher: _Watcher, interval: float) -> None:
    """Say once that names come and go in watched folders, and no event tells of it; listing finds them all the same."""
    while True:
        heard, watched = watcher.heard, watcher.watched
        before = await to_thread.run_sync(times_of_change, watched)
        await anyio.sleep(interval)
        changed = await to_thread.run_sync(times_of_change, watched) != before
        await anyio.sleep(interval)
        if changed and watcher.heard == heard and watcher.watched:
            logger.warning("watch.silent", folders=len(watched), interval=interval)
            return
