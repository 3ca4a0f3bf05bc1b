"""A store in a directory, local or mounted, that every node of an experiment can reach."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from swarm import forms
from swarm.errors import ProtocolError, StoreError
from swarm.lines import LineFile
from swarm.store.base import (
    MOST_PER_READ,
    PAGE,
    Blob,
    Entry,
    Facts,
    Hint,
    Page,
    Prefixes,
    Records,
    Room,
    parts_of,
)
from swarm.store.folder import bundles, growing
from swarm.store.folder.beneath import (
    NO_LINK,
    NO_WAITING,
    OPENS_FOLDERS,
    Within,
    make_folder,
    opened_folder,
    prune,
    remedy,
    unlink,
)
from swarm.store.folder.fetch import copy_out, list_page, look_at, open_regular, read_tagged
from swarm.store.folder.filesystem import room_at
from swarm.store.folder.publish import failing_to_write, publish, sync_folder, sync_opened
from swarm.wire.keys import EXPERIMENT

LARGEST = 2**20
"""Bytes that are read of experiment.json."""


class _Begun(msgspec.Struct):
    created_at: float = 0.0


class Recognised:
    """One root, for one writer. Blocking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: tuple[int, int] | None = None
        self._begun = b""
        """experiment.json as this writer first saw it, empty before that."""

    def begins(self, data: bytes) -> None:
        """This writer itself has just written experiment.json, or removed it: b""."""
        self._begun = data

    def see(self) -> None:
        """Look at the root. Raises StoreError: it holds another experiment than before."""
        try:
            found = os.stat(self._root)
        except OSError:
            return  # it is away: whoever reads or writes finds out
        folder = found.st_dev, found.st_ino
        if self._begun and folder == self._folder:
            return
        begun = self._read()
        if self._begun and begun != self._begun:
            raise self._other(begun)
        self._begun, self._folder = begun, folder

    def _read(self) -> bytes:
        try:
            with open(self._root / EXPERIMENT, "rb", opener=_no_link) as file:
                return file.read(LARGEST)
        except OSError:
            return b""

    def _other(self, begun: bytes) -> StoreError:
        if not begun:
            return StoreError(
                f"{self._root} held an experiment and is another folder now; see that the shared folder is mounted"
            )
        astray = _created_at(begun) < _created_at(self._begun)
        return StoreError(
            f"{self._root} holds another experiment of this name than the one that this node began in; "
            + ("start the node anew" if astray else "see that the shared folder is mounted"),
            astray=astray,
        )


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | NO_LINK | NO_WAITING)


def _created_at(begun: bytes) -> float:
    try:
        return forms.decode(begun, _Begun).created_at
    except msgspec.MsgspecError:
        return 0.0


class FolderStore:
    """Keys are the files below a root folder. Links to the root are followed, or to some names before its end; none
    below.

    Drafts lie in `.tmp/{writer}` until they are renamed into place. Where a root that held something is gone or empty,
    as an unmounted share is, nothing is written: it would lie under the mount point, where nobody sees it. Where a root
    holds another experiment than before, as when somebody begins one under the mount point, a writer neither reads nor
    writes.
    """

    def __init__(
        self, root: Path, writer: str | None = None, *, below: int = 0, by_path: bool = not OPENS_FOLDERS
    ) -> None:
        """Opens nothing yet.

        Args:
            below: so many of the root's last names may be no links: others can write where they lie.
            writer: who writes here, a name that no other process has; None: nobody, this store only reads.
            by_path: do without openat, as on Windows: read, and write what views and reports do, `put` and `remove`.
        """
        self._root = root
        self._writer = writer
        self._below = below
        self._by_path = by_path
        self._held_something = False
        self._held = threading.local()
        """Names and descriptor of the folder that a thread holds open, as `open`."""
        self._known = Recognised(root)
        self._room: Room | None = None
        """After the last file that was put here."""

    def describe(self, key: str = "") -> str:
        return str(self._at(key))

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        publish(self._at(key), data, self._writing(), durable=durable, if_absent=if_absent, own=True)
        self._held_something = True
        if key == EXPERIMENT:
            self._known.begins(data)
        with suppress(OSError):
            self._room = room_at(self._root)

    def get(self, key: str, limit: int) -> Blob:
        prefix, folder = getattr(self._held, "open", ((), None))
        if folder is None or (at := self._at(key)).names[:-1] != prefix:
            return read_tagged(self._readable(key), limit)
        return read_tagged(at, limit, folder)

    @contextmanager
    def holding(self, prefix: str) -> Iterator[None]:
        with ExitStack() as stack:
            with suppress(OSError):  # each file says why, or is reached by its path
                folder = self._readable(prefix)
                self._held.open = folder.names, stack.enter_context(opened_folder(folder))
            stack.callback(vars(self._held).clear)
            yield

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        try:
            copy_out(self._readable(key), target, limit)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(f"cannot copy {self.describe(key)} to {target}: {error.strerror or error}") from error

    def stat(self, key: str) -> Entry | None:
        return look_at(self._readable(key))

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        return list_page(self._readable(prefix), after, limit, tags=tags)

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        bundles.put_bundle(self._at(prefix), fill, self._drafts())

    def open_bundle(self, prefix: str) -> AbstractContextManager[Path]:
        return bundles.open_bundle(self._readable(prefix), self._drafts() if self._writer else None)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        drafts = self._drafts()
        if records:
            growing.append(self._at(key), records, drafts, durable=durable, once=once)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        return growing.read_on(self._readable(key), cursor, limit)

    def open_log(self, key: str) -> LineFile:
        at = self._at(key)
        opener = partial(self._open_to_append, at)
        with failing_to_write(at):
            if growing.older_part(at) is None:
                return LineFile(opener)
            return growing.RotatedLog(opener, lambda: growing.rotate(at, self._drafts()), growing.MOST_OF_PART)

    def _open_to_append(self, at: Within) -> int:
        drafts = self._drafts()
        return growing.open_to_append(replace(at, anew=drafts.anew), drafts)

    def sync(self, key: str) -> None:
        self._drafts()
        at = self._at(key)
        try:
            descriptor = open_regular(at)
        except (FileNotFoundError, ProtocolError):
            return
        with open(descriptor, "rb"), failing_to_write(at), suppress(FileNotFoundError):
            sync_opened(descriptor)
            for depth in range(len(at.names)):
                sync_folder(replace(at, names=at.names[:depth]))

    def recover(self) -> None:
        bundles.recover(self._drafts())

    def remove(self, key: str) -> None:
        self._writing()
        at = self._at(key)
        if key == EXPERIMENT:
            self._known.begins(b"")
        with failing_to_write(at), suppress(FileNotFoundError):
            unlink(at)
        prune(at)

    def remove_prefix(self, prefix: str) -> None:
        bundles.remove_prefix(self._at(prefix), self._writing())

    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        from swarm.store.folder.watch import watch  # here, for commands that only look start without it

        roots, own = [self._at(prefix) for prefix in prefixes], f"{self._writer}.json" if self._writer else None
        await watch(roots, interval, hint, self._make, lambda: [self._at(prefix) for prefix in among_them()], own)

    def _make(self, folder: Within) -> None:
        if self._writer is not None:
            make_folder(replace(folder, anew=self._drafts().anew))

    def facts(self) -> Facts:
        return Facts(room=self._room)

    def _at(self, key: str) -> Within:
        return Within(self._root, parts_of(key), self._by_path, self._below, anew=not self._held_something)

    def _readable(self, key: str) -> Within:
        """Returns where a key lies. Raises StoreError: the root holds another experiment than before, for a writer."""
        if self._writer is not None:
            self._known.see()
        return self._at(key)

    def _drafts(self) -> Within:
        """Returns the folder of drafts, and refuses where openat(2) is missing. Raises StoreError."""
        drafts = self._writing()
        if self._by_path:
            raise StoreError(f"cannot write in {self._root}: this needs openat(2), as Linux and macOS have it")
        return drafts

    def _writing(self) -> Within:
        """Returns where this writer's drafts lie, once it was seen that it may write.

        Raises:
            StoreError: it is no writer, or the root is not there any more, or is another one.
        """
        if self._writer is None:
            raise StoreError(f"{self._root} was opened to read, and not to write")
        held_something = self._held_something  # before the look: another thread may write the first thing meanwhile
        why_not = self._why_empty()
        if held_something and why_not:
            raise StoreError(why_not)
        self._held_something |= not why_not
        self._known.see()
        return replace(self._at(""), names=(".tmp", self._writer))

    def _why_empty(self) -> str:
        """Returns why nothing is seen to be in the root; empty if something is."""
        away = f"{self._root} was there and is not any more; see that the shared folder is mounted"
        try:
            with os.scandir(self._root) as entries:
                return "" if next(entries, None) else away
        except FileNotFoundError:
            return away
        except OSError as error:
            return f"cannot look into {self._root} any more: {error.strerror or error}; {remedy(error)}"
