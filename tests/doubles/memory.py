"""A store in the memory of one process, for tests, simulations and embedders: nothing of it outlives the process.

    place = MemoryPlace()
    anna, view = place.open("anna"), place.open()      # a writer's handle, and one that only reads

What one handle wrote every other one sees at once, from any thread; listings are in the order of names, tags count up.
So the same calls give the same answers, in every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import anyio

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
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
    bytes_of_end,
    copy_whole,
    page_of,
    parts_of,
)
from swarm.store.records import Cursor, read_end, read_on


@dataclass(slots=True, eq=False)
class _File:
    data: bytes | bytearray
    """A bytearray where records are appended to it."""
    tag: int
    born: int
    """By which a growing file is known from another one at the same key."""


_Folder = dict[str, Union["_Folder", _File]]


@dataclass(slots=True, eq=False)
class _Listener:
    prefixes: tuple[str, ...]
    hint: Hint
    loop: asyncio.AbstractEventLoop
    context: Context

    def hear(self, key: str) -> None:
        """Hints, from any thread, that something at this key, or below it, is another one."""
        if any(not prefix or f"{key}/".startswith(f"{prefix}/") for prefix in self.prefixes):
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self.loop.call_soon_threadsafe(self.hint, context=self.context)


class MemoryPlace:
    """Holds the files and listeners that all handles share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.root: _Folder = {}
        self.listeners: list[_Listener] = []
        self._count = 0

    def open(self, writer: str | None = None) -> MemoryStore:
        """Returns a handle; without a writer it refuses to write."""
        return MemoryStore(self, writer)

    def count(self) -> int:
        """Returns another number each time."""
        self._count += 1
        return self._count

    def find(self, key: str) -> _Folder | _File | None:
        """Returns what stands at a key; None: nothing."""
        found: _Folder | _File | None = self.root
        for name in parts_of(key):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def tell(self, key: str) -> None:
        """Hint at a change."""
        for listener in self.listeners:
            listener.hear(key)


class MemoryStore:
    """One handle."""

    def __init__(self, place: MemoryPlace, writer: str | None) -> None:
        self._place = place
        self._writer = writer

    def describe(self, key: str = "") -> str:
        return f"memory:{key}"

    def facts(self) -> Facts:
        return Facts()

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        with self._writing(key) as (folder, name):
            there = folder.get(name)
            if there is not None and if_absent:
                raise AlreadyThereError(f"{self.describe(key)} is there already")
            if isinstance(there, dict) and folder is self._place.root:
                raise self._blocked(key, "a prefix stands there")
            folder[name] = _File(bytes(data), self._place.count(), self._place.count())

    def get(self, key: str, limit: int) -> Blob:
        with self._place.lock:
            file = self._file(key)
            if len(file.data) > limit:
                detail = f"{self.describe(key)} has {len(file.data)} bytes, the limit is {limit}"
                raise ProtocolError("oversized", detail)
            return Blob(bytes(file.data), str(file.tag))

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        copy_whole(self, key, target, limit)

    def stat(self, key: str) -> Entry | None:
        with self._place.lock:
            found = self._place.find(key)
            return None if found is None else _entry(key.rpartition("/")[2], found, tags=True)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        with self._place.lock:
            found = self._place.find(prefix)
            if found is None:
                return Page([])
            if isinstance(found, _File):
                raise StoreError(f"cannot list {self.describe(prefix)}: it is a file", blocked=True)
            return page_of([_entry(name, found[name], tags=tags) for name in sorted(found)], after, limit)

    # ── bundles ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        with tempfile.TemporaryDirectory(prefix="swarm-bundle-") as name:
            try:
                fill(Path(name))
                bundle = self._taken_in(Path(name))
            except OSError as error:
                raise StoreError(f"cannot write {self.describe(prefix)}: {error}") from error
        with self._writing(prefix) as (folder, name):
            if isinstance(folder.get(name), _File) and folder is self._place.root:
                raise self._blocked(prefix, "a file stands there")
            folder[name] = bundle

    def _taken_in(self, folder: Path) -> _Folder:
        bundle: _Folder = {}
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                bundle[path.name] = self._taken_in(path)
            else:
                bundle[path.name] = _File(path.read_bytes(), self._place.count(), self._place.count())
        return bundle

    @contextmanager
    def open_bundle(self, prefix: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="swarm-bundle-") as name:
            with self._place.lock:
                found = self._place.find(prefix)
                if found is None:
                    raise FileNotFoundError(self.describe(prefix))
                if isinstance(found, _File):
                    raise ProtocolError("not_a_file", f"{self.describe(prefix)} is a file, no bundle")
                _laid_out(found, Path(name))
            yield Path(name)

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        lines = b"".join(record + b"\n" for record in records)
        with self._writing(key) as (folder, name):
            file = folder.get(name)
            if isinstance(file, dict) and folder is self._place.root:
                raise self._blocked(key, "a prefix stands there")
            if file is None or isinstance(file, dict):
                file = folder[name] = _File(bytearray(), 0, self._place.count())
            if not isinstance(file.data, bytearray):
                file.data = bytearray(file.data)
            del file.data[file.data.rfind(b"\n") + 1 :]
            if not (once and _ends_with(file.data, lines)):
                file.data += lines
            file.tag = self._place.count()

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        with self._place.lock:
            try:
                file = self._file(key)
            except FileNotFoundError:
                return Records([], cursor)
            if wanted := bytes_of_end(cursor):
                cursor = ""
            known = Cursor.parsed(cursor)
            same = known.of in ("", str(file.born)) and known.offset <= len(file.data)

            def read(begin: int, end: int) -> bytes:
                return bytes(file.data[begin:end])

            def what(offset: int) -> str:
                return str(file.born)

            if wanted:
                return read_end(read, len(file.data), wanted, limit, what)
            found = read_on(read, len(file.data), known if same else Cursor(), limit, what)
            return found._replace(restarted=not same)

    def open_log(self, key: str) -> LogFile:
        return AppendedLog(self, key)

    def sync(self, key: str) -> None:
        self._check_writer()

    def recover(self) -> None:
        self._check_writer()

    # ── removal ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def remove(self, key: str) -> None:
        self._remove(key, _File)

    def remove_prefix(self, prefix: str) -> None:
        self._remove(prefix, dict)

    def _remove(self, key: str, kind: type) -> None:
        self._check_writer()
        with self._place.lock:
            found = self._place.find(key)
            if found is None:
                return
            if not isinstance(found, kind):
                raise self._blocked(key, "it is a prefix" if isinstance(found, dict) else "it is a file")
            parts = [*parts_of(key)]
            while parts:  # a prefix is there as long as something is below it
                parent = self._place.find("/".join(parts[:-1]))
                assert isinstance(parent, dict)
                del parent[parts.pop()]
                if parent:
                    break
            self._place.tell(key)

    # ── watching ─────────────────────────────────────────────────────────────────────────────────────────────────────
    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        listener = _Listener(tuple(prefixes), hint, asyncio.get_running_loop(), copy_context())
        self._place.listeners.append(listener)
        try:
            await anyio.sleep_forever()
        finally:
            self._place.listeners.remove(listener)

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def _check_writer(self) -> None:
        if self._writer is None:
            raise StoreError(f"{self.describe()} was opened to read only")

    @contextmanager
    def _writing(self, key: str) -> Iterator[tuple[_Folder, str]]:
        """The folder of a key, made if it is missing, and its last name; others are told at the end."""
        self._check_writer()
        *parents, name = parts_of(key)
        with self._place.lock:
            folder = self._place.root
            for parent in parents:
                below = folder.setdefault(parent, {})
                if isinstance(below, _File):
                    raise self._blocked(key, f"{parent} is a file")
                folder = below
            yield folder, name
            self._place.tell(key)

    def _file(self, key: str) -> _File:
        found = self._place.find(key)
        if isinstance(found, dict):
            raise ProtocolError("not_a_file", f"{self.describe(key)} is a prefix")
        if found is None:
            raise FileNotFoundError(self.describe(key))
        return found

    def _blocked(self, key: str, why: str) -> StoreError:
        return StoreError(f"cannot write {self.describe(key)}: {why}", blocked=True)


def _entry(name: str, found: _Folder | _File, *, tags: bool) -> Entry:
    if isinstance(found, dict):
        return Entry(name, Kind.PREFIX)
    return Entry(name, Kind.FILE, len(found.data), str(found.tag)) if tags else Entry(name, Kind.FILE)


def _laid_out(bundle: _Folder, folder: Path) -> None:
    for name, found in bundle.items():
        if isinstance(found, dict):
            (folder / name).mkdir()
            _laid_out(found, folder / name)
        else:
            (folder / name).write_bytes(found.data)


def _ends_with(data: bytearray, lines: bytes) -> bool:
    """Tells whether these are the last lines already: the append before raised, although it had come through."""
    return bool(lines) and data.endswith(lines) and (len(data) == len(lines) or data[-len(lines) - 1] == ord("\n"))


class AppendedLog:
    """A log file of a store that keeps none open: lines are appended as they come."""

    waits = 0.0

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key

    def write(self, line: bytes) -> None:
        self._store.append_records(self._key, line.split(b"\n"), durable=False)

    def reopen(self) -> None:
        pass

    def fileno(self) -> None:
        return None

    def close(self) -> None:
        pass
