"""Places to try a store in: each opens handles, and can do to the place what no store can."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import pytest

from swarm.store.base import Store
from swarm.store.folder.store import FolderStore
from swarm.store.place import open_place
from tests.doubles.faulty import Faults, FaultyPlace, FaultyStore
from tests.doubles.memory import MemoryPlace


class World(Protocol):
    """One place, empty at first."""

    logs_wait: bool
    """It is far away: the lines of an open log may not be seen yet, and there are no hints."""

    def open(self, writer: str | None = None) -> Store:
        """A handle, as another process would have it."""

    def cut_power(self, writer: str) -> None:
        """The host of a writer loses its power: whatever need not be durable goes."""

    def put_odd(self, key: str, kind: str) -> bool:
        """A stranger puts a `fifo`, `link`, `socket`, `sparse`, `folder` or `hard link` at a key; False: none."""


class Folder:
    """A directory, on a disk that forgets what was not synced."""

    logs_wait = False

    def __init__(self, tmp: Path, undo: ExitStack) -> None:
        self.root = tmp / "experiments" / "demo"
        self._outside = tmp / "outside"
        self._outside.mkdir()
        (self._outside / "secret").write_bytes(b"secret")
        self._disk = Disk(undo)

    def open(self, writer: str | None = None) -> Store:
        return FolderStore(self.root, writer)

    def cut_power(self, writer: str) -> None:
        self._disk.forget(self.root)

    def lay(self, key: str, data: bytes) -> None:
        """A file as it lies there, written by nobody's store."""
        place = self.root / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def put_odd(self, key: str, kind: str) -> bool:
        place = self.root / key
        place.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "fifo":
                os.mkfifo(place)
            case "link":
                place.symlink_to(self._outside / "secret")
            case "socket":
                bind(place)
            case "sparse":
                place.touch()
                os.truncate(place, 10 * 2**30)
            case "folder":
                place.mkdir()
                (place / "below").write_bytes(b"junk")
            case "hard link":
                os.link(self._outside / "secret", place)
        return True


class Served:
    """A place on a server."""

    logs_wait = True

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self, writer: str | None = None) -> Store:
        return open_place(self.url).store("demo", writer)

    def cut_power(self, writer: str) -> None:
        """Nobody here can do that."""

    def put_odd(self, key: str, kind: str) -> bool:
        return False


class FolderByPath(Folder):
    """The same, whose readers have no openat, as on Windows."""

    def open(self, writer: str | None = None) -> Store:
        return FolderStore(self.root, writer, by_path=writer is None)


def bind(place: Path) -> None:
    """Make a socket; its path may be longer than one may say at once."""
    here = os.getcwd()
    try:
        os.chdir(place.parent)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place.name)
    finally:
        os.chdir(here)


class Disk:
    """Knows which files and names were brought to disk, from the calls of fsync."""

    def __init__(self, undo: ExitStack) -> None:
        self._files: dict[int, tuple[int, int]] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._fsync = os.fsync
        patch = undo.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(os, "fsync", self._synced)

    def _synced(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            names = os.listdir(descriptor)
            inodes = {name: os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_ino for name in names}
            self._names[found.st_ino] = inodes
        else:
            self._files[found.st_ino] = (found.st_size, found.st_mtime_ns)
        self._fsync(descriptor)

    def forget(self, folder: Path) -> None:
        """Names that were not synced go, and so does the content of files that were not."""
        safe = self._names.get(folder.stat().st_ino, {})
        for path in list(folder.iterdir()):
            found = path.lstat()
            if safe.get(path.name) != found.st_ino:
                os.rename(path, folder.parent / f"lost-{found.st_ino}")
            elif path.is_dir():
                self.forget(path)
            elif self._files.get(found.st_ino) != (found.st_size, found.st_mtime_ns):
                os.truncate(path, 0)


class Memory:
    """The memory of this process, which loses its power as a whole."""

    logs_wait = False

    def __init__(self, tmp: Path, undo: ExitStack) -> None:
        self.place = MemoryPlace()

    def open(self, writer: str | None = None) -> Store:
        return self.place.open(writer)

    def cut_power(self, writer: str) -> None:
        pass

    def put_odd(self, key: str, kind: str) -> bool:
        return False


class Bucket:
    """A bucket in the memory of this process, which loses nothing."""

    logs_wait = True
    packs = False

    def __init__(self, tmp: Path, undo: ExitStack) -> None:
        pytest.importorskip("obstore")
        from tests.unit.store.bucket.buckets import MemoryBucket

        self._bucket = MemoryBucket()

    def open(self, writer: str | None = None) -> Store:
        return self._bucket.open(writer, packs=self.packs)

    def lay(self, key: str, data: bytes) -> None:
        """An object as it lies there, written by nobody's store."""
        self._bucket.write(key, data)

    def cut_power(self, writer: str) -> None:
        pass

    def put_odd(self, key: str, kind: str) -> bool:
        return False


class PackedBucket(Bucket):
    """One whose files are packed."""

    packs = True


class Faultless:
    """Any place seen through faults, of which none comes true but a cut of power."""

    logs_wait = False

    def __init__(self, inner: Memory | Folder) -> None:
        self._inner = inner
        self._place = FaultyPlace(Faults(), lambda: 0.0)

    def open(self, writer: str | None = None) -> Store:
        return FaultyStore(self._place, self._inner.open(writer), writer or "a reader")

    def cut_power(self, writer: str) -> None:
        self._place.cut_power(writer, self._inner.open(writer))

    def put_odd(self, key: str, kind: str) -> bool:
        return self._inner.put_odd(key, kind)


WORLDS: dict[str, Callable[[Path, ExitStack], World]] = {
    "folder": Folder,
    "folder read by path": FolderByPath,
    "memory": Memory,
    "bucket": Bucket,
    "packed bucket": PackedBucket,
    "faulty memory": lambda tmp, undo: Faultless(Memory(tmp, undo)),
    "faulty folder": lambda tmp, undo: Faultless(Folder(tmp, undo)),
}


def _replicated(tmp: Path, undo: ExitStack) -> Folder:
    from tests.plugins.syncthing.worlds import Replicated

    return Replicated(tmp, undo)


def _far_away(tmp: Path, undo: ExitStack) -> Folder:
    from tests.plugins.syncthing.worlds import ReplicatedFarAway

    return ReplicatedFarAway(tmp, undo)


if find_spec("swarm.plugins.syncthing"):
    WORLDS |= {
        "replicated": _replicated,
        "replicated far away": _far_away,
        "faulty replicated": lambda tmp, undo: Faultless(_replicated(tmp, undo)),
    }
