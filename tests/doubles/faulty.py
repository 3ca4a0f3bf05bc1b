"""Any store seen through faults, one handle per life of a process: for tests and simulations.

    put, append ─▶ draft ─▶ inner store ─▶ visible ─▶ durable    Faults.step may raise at each; Faults.kept says what a
                               │                                 power cut leaves of what is not durable yet
                               └─▶ history of the key ─▶ reader  Faults.sees and Faults.stale say which version it gets

    place = FaultyPlace(faults, now)
    anna = FaultyStore(place, memory.open("anna"), "anna")

`Faults` itself does nothing: subclasses plan what goes wrong. All who write in a place have to do it through handles of
one FaultyPlace, for a reader's view is made of what went through them. With `Faults()` a handle is as the store behind
it.

A process that is killed in the middle of a call hears it as `Killed`, which nobody but its supervisor may catch. Its
handle answers nothing any more: each further call is told to `Faults.reached` and raises again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from swarm.errors import ProtocolError
from swarm.lines import LogFile
from swarm.store.base import (
    MOST_PER_READ,
    PAGE,
    Blob,
    Entry,
    Facts,
    Hint,
    Kind,
    Page,
    Prefixes,
    Records,
    Store,
    copy_whole,
)
from swarm.store.wake_ups import wake
from tests.doubles.memory import AppendedLog

MOST_VERSIONS = 200
"""Versions of one key, before the older half of them is forgotten."""
ANY_SIZE = 2**62


class Killed(BaseException):
    """The process of this handle has ended, and nothing of it goes on."""


class Step(StrEnum):
    """Says how far a write has come."""

    DRAFT = "draft"
    """Nothing that anybody sees."""
    HALF = "half"
    """Half is written, of an append only: a kill here leaves half a record."""
    VISIBLE = "visible"
    """Others may see it; a power cut may take it back."""
    DURABLE = "durable"
    """All; the writer has not heard of it."""


@dataclass(slots=True, eq=False)
class Version:
    """One write, as it went through a handle."""

    number: int
    """Grows from write to write, over all keys."""
    key: str
    writer: str
    time: float
    data: bytes | None
    """None: the key was removed, or is a bundle."""
    tag: str = ""
    appended: int = 0
    """Bytes, of an append; its `data` is no version to be read then."""
    bundle: bool = False

    @property
    def there(self) -> bool:
        """Tells whether it is no removal."""
        return self.data is not None or self.bundle


class Faults:
    """Plans what goes wrong; to be subclassed. Whatever is not overridden goes right."""

    def sees(self, reader: str, version: Version) -> bool:
        """Tells whether a reader has a version of another writer by now. Asked again until it has."""
        return True

    def stale(self, reader: str, key: str) -> int:
        """Returns by how many versions a read is older than what the reader might have; none is older than its own
        last."""
        return 0

    def reads(self, reader: str, key: str) -> None:
        """Is called before a read or listing. Raise StoreError where the place cannot be read."""

    def step(self, writer: str, key: str, step: Step) -> None:
        """Is called in the middle of a write. Raise StoreError (full, read-only, or done and not known to be) or
        Killed."""

    def kept(self, version: Version) -> float:
        """Returns the share of a write not yet durable that outlives a power cut: 1.0 all; of an append also a part."""
        return 0.0

    def hints(self, reader: str) -> Sequence[float]:
        """Returns after how many seconds a hint comes: () never, two of them twice."""
        return (0.0,)

    def reached(self, name: str) -> None:
        """Is called when somebody used the handle of a process that is dead."""


class FaultyPlace:
    """Holds what all handles share: who wrote which version, and when."""

    def __init__(
        self, faults: Faults, now: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self.faults = faults
        self.now = now
        self.sleep = sleep
        self.history: dict[str, list[Version]] = {}
        self.removed: dict[str, set[str]] = {}
        """Prefix -> names that are not there any more; some may see them still."""
        self._unsynced: dict[str, list[Version]] = {}
        self._count = 0

    def note(self, key: str, writer: str, data: bytes | None, tag: str = "", **more: Any) -> None:
        """A write has become visible."""
        self._count += 1
        version = Version(self._count, key, writer, self.now(), data, tag, **more)
        versions = self.history.setdefault(key, [])
        versions.append(version)
        if len(versions) > MOST_VERSIONS:
            del versions[: MOST_VERSIONS // 2]
        prefix, _, name = key.rpartition("/")
        if not version.there:
            self.removed.setdefault(prefix, set()).add(name)
        elif prefix in self.removed:
            self.removed[prefix].discard(name)
        self._unsynced.setdefault(writer, []).append(version)

    def synced(self, writer: str, key: str) -> None:
        """All that this writer wrote at a key is durable."""
        self._unsynced[writer] = [version for version in self._unsynced.get(writer, ()) if version.key != key]

    def cut_power(self, name: str, inner: Store) -> list[Version]:
        """The host of a process lost power: what it had written last, and not made durable, may go; says what went."""
        lost = []
        for version in reversed(self._unsynced.pop(name, [])):
            share = self.faults.kept(version)
            if share < 1.0 and self._undo(version, share, inner):
                lost.append(version)
        return lost

    def _undo(self, version: Version, share: float, inner: Store) -> bool:
        """Put back what was there before, where this can be done and nobody has written since."""
        key, versions = version.key, self.history[version.key]
        if not versions or versions[-1] is not version:
            return False
        before = versions[-2] if len(versions) > 1 else None
        if before is not None and (before.bundle or version.bundle or before.appended > version.appended == 0):
            return False
        versions.pop()
        if version.appended:
            data = inner.get(key, ANY_SIZE).data
            inner.put(key, data[: len(data) - version.appended + int(share * version.appended)])
        elif version.bundle:
            inner.remove_prefix(key)
        elif before is None or before.data is None:
            inner.remove(key)
        else:
            inner.put(key, before.data)
            before.tag = tag_of(inner, key)
        return True


def tag_of(store: Store, key: str) -> str:
    """Returns the tag of what stands at a key, "" if nothing does."""
    entry = store.stat(key)
    return entry.tag if entry else ""


_NOTHING = Version(0, "", "", 0.0, None)
"""Version of a key of which a reader sees nothing yet."""


class FaultyStore:
    """One handle; a Store."""

    def __init__(self, place: FaultyPlace, inner: Store, name: str) -> None:
        self._place = place
        self._faults = place.faults
        self._inner = inner
        self._name = name
        self._settled: dict[str, int] = {}
        """Key -> number of the newest version that was seen."""
        self.fenced = False
        """The process is dead."""

    def describe(self, key: str = "") -> str:
        return self._inner.describe(key)

    def facts(self) -> Facts:
        return self._inner.facts()

    # ── what is seen ────────────────────────────────────────────────────────────────────────────────────────────────
    def get(self, key: str, limit: int) -> Blob:
        self._reads(key)
        version = self._seen(key, stale=self._faults.stale(self._name, key))
        if version is None or version is self._place.history[key][-1] or version.appended:
            return self._inner.get(key, limit)
        if version.data is None:
            raise FileNotFoundError(self.describe(key))
        if len(version.data) > limit:
            raise ProtocolError("oversized", f"{self.describe(key)} has {len(version.data)} bytes, limit {limit}")
        return Blob(version.data, version.tag)

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        copy_whole(self, key, target, limit)

    def stat(self, key: str) -> Entry | None:
        self._reads(key)
        entry = self._inner.stat(key)
        return entry and self._as_seen(key, entry)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        self._reads(prefix)
        page = self._inner.list(prefix, after=after, limit=limit, tags=tags)
        start = f"{prefix}/" if prefix else ""
        entries = [seen for entry in page.entries if (seen := self._as_seen(start + entry.name, entry))]
        ghosts = [
            Entry(name, Kind.FILE, len(version.data), version.tag) if tags else Entry(name, Kind.FILE)
            for name in self._place.removed.get(prefix, ())
            if after < name <= (page.next or name)
            and (version := self._seen(start + name))
            and version.data is not None
        ]
        return Page(sorted([*entries, *ghosts]) if ghosts else entries, page.next, page.looked)

    @contextmanager
    def open_bundle(self, prefix: str) -> Iterator[Path]:
        self._reads(prefix)
        version = self._seen(prefix)
        if version is not None and not version.there:
            raise FileNotFoundError(self.describe(prefix))
        with self._inner.open_bundle(prefix) as folder:
            yield folder

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        self._reads(key)
        version = self._seen(key)
        if version is not None and version is not self._place.history[key][-1]:
            return Records([], cursor)  # they come together with the last of them
        return self._inner.read_records(key, cursor, limit)

    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        self._alive()

        async def pass_on(delay: float) -> None:
            if delay:
                await self._place.sleep(delay)
            hint()

        send, receive = anyio.create_memory_object_stream[None](1)
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(self._inner.watch, prefixes, interval, partial(wake, send), among_them)
            async for _ in receive:
                for delay in self._faults.hints(self._name):
                    tasks.start_soon(pass_on, delay)

    # ── what is written ─────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self._alive()
        self._step(key, Step.DRAFT)
        self._inner.put(key, data, if_absent=if_absent, durable=durable)
        self._place.note(key, self._name, data, tag_of(self._inner, key))
        self._written(key, durable=durable)

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        self._alive()

        def filled(folder: Path) -> None:
            fill(folder)
            self._step(prefix, Step.DRAFT)

        self._inner.put_bundle(prefix, filled)
        self._place.note(prefix, self._name, None, bundle=True)
        self._written(prefix, durable=True)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        self._alive()
        self._step(key, Step.DRAFT)
        size = sum(len(record) + 1 for record in records)
        try:
            self._step(key, Step.HALF)
        except Killed:
            self._leave_half(key, b"\n".join(records)[: size // 2])
            raise
        self._inner.append_records(key, records, durable=durable, once=once)
        self._place.note(key, self._name, b"", appended=size)
        self._written(key, durable=durable)

    def _leave_half(self, key: str, half: bytes) -> None:
        there = self._inner.get(key, ANY_SIZE).data if self._inner.stat(key) else b""
        self._inner.put(key, there[: there.rfind(b"\n") + 1] + half)

    def open_log(self, key: str) -> LogFile:
        return AppendedLog(self, key)

    def sync(self, key: str) -> None:
        self._alive()
        self._inner.sync(key)
        self._step(key, Step.DURABLE)
        self._place.synced(self._name, key)

    def recover(self) -> None:
        self._alive()
        self._inner.recover()

    def remove(self, key: str) -> None:
        self._alive()
        self._step(key, Step.DRAFT)
        there = self._inner.stat(key) is not None
        self._inner.remove(key)
        if there:
            self._place.note(key, self._name, None)
        self._step(key, Step.VISIBLE)

    def remove_prefix(self, prefix: str) -> None:
        self._alive()
        self._step(prefix, Step.DRAFT)
        self._inner.remove_prefix(prefix)
        for key, versions in list(self._place.history.items()):
            if f"{key}/".startswith(f"{prefix}/") and versions and versions[-1].there:
                self._place.note(key, self._name, None)
        self._step(prefix, Step.VISIBLE)

    def _written(self, key: str, *, durable: bool) -> None:
        self._step(key, Step.VISIBLE)
        if durable:
            self._place.synced(self._name, key)
        self._step(key, Step.DURABLE)

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def _alive(self) -> None:
        if self.fenced:
            self._faults.reached(self._name)
            raise Killed(self._name)

    def _reads(self, key: str) -> None:
        self._alive()
        self._faults.reads(self._name, key)

    def _step(self, key: str, step: Step) -> None:
        try:
            self._faults.step(self._name, key, step)
        except Killed:
            self.fenced = True
            raise

    def _seen(self, key: str, *, stale: int = 0) -> Version | None:
        """Returns the version of a key that this reader has; None: whatever is there, for it is nobody's who has a
        handle."""
        versions = self._place.history.get(key)
        if not versions:
            return None
        seen, settled = _NOTHING, self._settled.get(key, 0)
        for version in reversed(versions):
            if version.number > settled:
                if version.writer != self._name and not self._faults.sees(self._name, version):
                    continue
                self._settled[key] = settled = version.number
            seen, stale = version, stale - 1
            if stale < 0 or version.writer == self._name:  # what a process wrote last, its own host has
                break
        return seen

    def _as_seen(self, key: str, entry: Entry) -> Entry | None:
        version = self._seen(key)
        if version is None:
            return entry
        if not version.there:
            return None
        if version.data is None or version.appended or not entry.tag:
            return entry
        return entry._replace(size=len(version.data), tag=version.tag)
