"""Private copies of a shared place's files, for who reads them piece by piece: nobody else changes them meanwhile.

a file      Copies.fetch: copied, with its digest
a bundle    opened: gathered anew where it is replaced meanwhile; take: linked where links will do
again       copy_opened: whoever wrote a linked file can still make it a hole, so all is looked at anew
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from swarm.errors import ProtocolError, StoreError
from swarm.store.base import Store
from swarm.store.folder.beneath import NO_LINK, NO_WAITING, OPENS_FOLDERS

MOST_IN_A_BUNDLE = 10_000
"""Files and folders; a checkpoint has some ten."""
MOST_BYTES_IN_A_BUNDLE = 1 << 38
"""Bytes of all its files; those of a model of 7 billion parameters and its optimizer have 84 GB."""
DEEPEST_IN_A_BUNDLE = 20
"""Folders within each other."""
LEAST_SPARSE, LEAST_WRITTEN = 64 * 2**20, 0.1
"""Files of more bytes, those of one folder together, have at least this share written: a hole costs nobody anything
but who copies it. One of them may be a hole: to file systems that compress, the zeros of an optimizer are one."""
_MOST_HOLES = 10_000
_PIECE = 1 << 20
_ATTEMPTS = 5
"""Times that a bundle which is replaced while it is opened is opened again."""


def no_room(error: OSError) -> StoreError:
    """Returns what to say where this machine has no room for temporary files."""
    said = error.strerror or error
    return StoreError(f"cannot keep a copy among the temporary files: {said}; free space there, or set TMPDIR")


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────
class Copy(NamedTuple):
    file: str
    """Its path on this machine."""
    sha256: str
    size: int
    """Bytes."""


class Copies:
    """Keeps copies in one local folder, which the first one makes."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None

    def fetch(self, store: Store, key: str, name: str, limit: int) -> Copy:
        """Copy a file of at most `limit` bytes in the place of what was copied under this name before. Blocking.

        Args:
            name: of the copy, safe as a file name.

        Raises:
            FileNotFoundError, ProtocolError: as Store.get_to_file.
            StoreError: as that, or this machine has no room for temporary files.
        """
        target = self._free(name)
        try:
            store.get_to_file(key, target, limit)
            with target.open("rb") as file:
                return Copy(str(target), hashlib.file_digest(file, "sha256").hexdigest(), target.stat().st_size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise no_room(error) from None

    def _free(self, name: str) -> Path:
        try:
            self._folder = self._folder or TemporaryDirectory(prefix="swarm-copies-", ignore_cleanup_errors=True)
            target = Path(self._folder.name) / name
            target.unlink(missing_ok=True)  # half of it, where the place failed
        except OSError as error:
            raise no_room(error) from None
        return target

    def remove(self) -> None:
        if self._folder:
            self._folder.cleanup()


@contextmanager
def private_copies() -> Iterator[Copies]:
    """A folder for copies that goes with the block."""
    copies = Copies()
    try:
        yield copies
    finally:
        copies.remove()


# ── bundles ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@contextmanager
def opened(where: str, gather: Callable[[Path], bool], own: Callable[[], Path] | None = None) -> Iterator[Path]:
    """Yields a folder of the reader's own with the files of a bundle, for the block.

    Args:
        where: the bundle, for messages.
        gather: brings the files into an empty folder; False: it was replaced meanwhile, and they may not be all.
        own: makes that folder; None: among the temporary files of this machine.

    Raises:
        ProtocolError: what `gather` raises, or it is replaced again and again.
        StoreError: the folder cannot be made.
    """
    for _ in range(_ATTEMPTS):
        try:
            folder = own() if own else Path(tempfile.mkdtemp(prefix="swarm-"))
        except OSError as error:
            said = f"cannot make a folder to open a bundle in: {error}; free space or fix the folder"
            raise StoreError(said) from error
        try:
            if gather(folder):
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    raise ProtocolError("unreadable", f"{where} is replaced again and again")


def copy_opened(bundle: Path, into: Path) -> None:
    """Copy the files of an opened bundle, or a folder in it, to a folder that is there.

    Raises:
        FileNotFoundError: it is not there.
        ProtocolError: as open_bundle.
        OSError: the copy cannot be written.
    """
    if not OPENS_FOLDERS:  # nor links files
        shutil.copytree(bundle, into, dirs_exist_ok=True)
        return
    folder = os.open(bundle, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        take(folder, into, linked=False)
    finally:
        os.close(folder)


def take(folder: int, own: Path, *, linked: bool = True) -> None:
    """Link or copy what is in an open folder to a folder of the reader's own; links and odd files are left out.

    Raises:
        ProtocolError: `oversized`: too many files or bytes, folders too deep, or files that are all but a hole.
        OSError: something cannot be read or written.
    """
    _take(folder, own, _Room(), 0, linked=linked)


@dataclass
class _Room:
    """Counts down how many files and bytes a bundle may still have."""

    files: int = MOST_IN_A_BUNDLE
    bytes: int = MOST_BYTES_IN_A_BUNDLE

    def take(self, size: int) -> None:
        """Raises ProtocolError: `oversized`."""
        self.files -= 1
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            raise ProtocolError(
                "oversized", f"a bundle has more than {MOST_IN_A_BUNDLE} files or {MOST_BYTES_IN_A_BUNDLE} bytes"
            )


def _take(folder: int, own: Path, room: _Room, depth: int, *, linked: bool) -> None:
    if depth > DEEPEST_IN_A_BUNDLE:
        raise ProtocolError("oversized", f"a bundle has folders more than {DEEPEST_IN_A_BUNDLE} deep")
    for name, found in _looked_at(folder, _names(folder, room.files + 1)).items():
        with contextlib.suppress(FileNotFoundError):  # replaced meanwhile, which is found afterwards
            mode = found.st_mode
            room.take(found.st_size if stat.S_ISREG(mode) else 0)
            if stat.S_ISDIR(mode):
                (own / name).mkdir()
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    _take(below, own / name, room, depth + 1, linked=linked)
                finally:
                    os.close(below)
            elif stat.S_ISREG(mode) and not (linked and _link_file(name, folder, own / name)):
                _copy_file(name, folder, own / name, found.st_size)


def _looked_at(folder: int, names: Iterable[str]) -> dict[str, os.stat_result]:
    """Returns the stats of those names that exist; refuses a bundle whose files are mostly holes. Raises ProtocolError:
    `oversized`."""
    looked: dict[str, os.stat_result] = {}
    size = written = 0
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            found = looked[name] = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_size > LEAST_SPARSE:
                size += found.st_size
                written += _written(name, folder, found.st_size)
    if written < LEAST_WRITTEN * size:
        raise ProtocolError("oversized", f"a bundle is a hole: {written} of {size} bytes were written")
    return looked


def _names(folder: int, most: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, most)]


def _link_file(name: str, folder: int, link: Path) -> bool:
    """Tells whether a file could be linked, or is left out; False: on another file system, or one without links."""
    try:
        os.link(name, link, src_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    if not link.is_file() or link.is_symlink():  # swapped since we looked
        link.unlink()
    return True


def _copy_file(name: str, folder: int, copy: Path, size: int) -> None:
    descriptor = os.open(name, os.O_RDONLY | NO_LINK | NO_WAITING, dir_fd=folder)
    with open(descriptor, "rb") as source, open(copy, "xb") as target:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            _copy(source, target, size)


def _written(name: str, folder: int, size: int) -> int:
    """Returns bytes of a file that are no hole, where the system tells of holes; 0 for one of very many."""
    if not hasattr(os, "SEEK_DATA"):
        return size
    descriptor = os.open(name, os.O_RDONLY | NO_LINK | NO_WAITING, dir_fd=folder)
    written, at = 0, 0
    try:
        for _ in range(_MOST_HOLES):
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, begin, os.SEEK_HOLE)
            written += at - begin
    except OSError as error:  # ENXIO: nothing but a hole from there on
        return written if error.errno == errno.ENXIO else size
    finally:
        os.close(descriptor)
    return 0


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copy as many bytes as there were, should it grow meanwhile."""
    while size > 0 and (piece := source.read(min(size, _PIECE))):
        size -= len(piece)
        target.write(piece)
