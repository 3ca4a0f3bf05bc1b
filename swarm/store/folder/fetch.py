"""Bounded reads of files that strangers wrote, and listings, which are the truth about the folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from swarm.errors import ProtocolError, StoreError
from swarm.store.base import MOST_NAMES, Blob, Entry, Kind, Page
from swarm.store.folder.beneath import (
    NO_WAITING,
    Scanned,
    Within,
    open_beneath,
    remedy,
    scanned,
    stat_beneath,
    what_went_wrong,
)
from swarm.wire.keys import MOST_REMEMBERED

_IN_THE_WAY = {errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM}
"""What keeps a folder from being listed for good: something else stands there, or it is closed."""
_PIECE = 1 << 20
"""Bytes of a copy that are in memory at once, and the least that is asked for at once."""


@contextmanager
def refusing(place: Within, *not_a_file: int) -> Iterator[None]:
    """Turns errors of the system into refusals by name: `not_a_file` for these errors, `unreadable` for any other.

    Raises:
        FileNotFoundError: as it came.
        ProtocolError: for any other OSError.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "not_a_file" if error.errno in not_a_file else "unreadable"
        raise ProtocolError(reason, f"{place}: {what_went_wrong(error, place)}") from None


def read_tagged(file: Within, limit: int, folder: int | None = None) -> Blob:
    """Read a regular file of at most `limit` bytes; never follows a symlink of a stranger, never blocks on a FIFO.

    Args:
        folder: as of open_beneath.

    Raises:
        FileNotFoundError: it is not there (any more).
        ProtocolError: `oversized`, `not_a_file` (symlink, FIFO, socket, folder, device) or `unreadable`.
    """
    descriptor = open_regular(file, folder)
    try:
        found = os.fstat(descriptor)  # before the bytes: what is written in between is another version afterwards
        at_once = max(found.st_size + 1, _PIECE)  # whole, unless it grows: to join parts takes its memory twice
        return Blob(b"".join(_pieces(descriptor, found.st_size, limit, file, at_once)), tag_of(found))
    finally:
        os.close(descriptor)


def copy_out(file: Within, target: Path, limit: int) -> None:
    """Copy a regular file, in pieces, to a new file; raises as read_tagged does, and OSError for the target."""
    with open(open_regular(file), "rb") as source, open(target, "xb") as copy:
        try:
            there = os.fstat(source.fileno()).st_size
            copy.writelines(_pieces(source.fileno(), there, limit, file, _PIECE))
        except BaseException:
            target.unlink()
            raise


def _pieces(descriptor: int, there: int, limit: int, file: Within, at_once: int) -> Iterator[bytes]:
    """Yields the bytes of a file of some size, read in parts. Raises ProtocolError: `oversized` or `unreadable`."""
    size = 0
    while max(size, there) <= limit:
        try:
            part = os.read(descriptor, min(limit + 1 - size, at_once))
        except OSError as error:
            raise ProtocolError("unreadable", f"{file}: {error.strerror or error}") from None
        if not part:
            return
        size += len(part)
        if size <= limit:
            yield part
    raise ProtocolError("oversized", f"{file} has {max(size, there)} bytes or more, the limit is {limit}")


def tag_of(found: os.stat_result) -> str:
    """Returns the version of a file: another one for every file that was renamed into place, and for every change
    within it."""
    return f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"


def look_at(place: Within) -> Entry | None:
    """Returns what stands at a place; None where nothing does.

    Raises:
        ProtocolError: `unreadable`, as where a link or a file stands in the place of a folder above it.
    """
    with suppress(FileNotFoundError), refusing(place):
        return _entry(place.name, stat_beneath(place))
    return None


def _entry(name: str, found: os.stat_result) -> Entry:
    if stat.S_ISREG(found.st_mode):
        return Entry(name, Kind.FILE, found.st_size, tag_of(found))
    return Entry(name, Kind.PREFIX if stat.S_ISDIR(found.st_mode) else Kind.OTHER)


def open_regular(file: Within, folder: int | None = None) -> int:
    """Returns a descriptor to read a stranger's file by, which the caller closes. Raises as read_tagged does."""
    with refusing(file, errno.ELOOP, errno.ENXIO):
        descriptor = open_beneath(file, os.O_RDONLY | NO_WAITING, folder=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ProtocolError("not_a_file", f"{file} is not a regular file")
    return descriptor


def list_page(folder: Within, after: str, limit: int, *, tags: bool) -> Page:
    """Returns a part of the names in a folder, as swarm.store.base.Store.list gives it.

    Raises:
        StoreError: the folder cannot be listed, or a link stands in its place.
    """
    try:
        with scanned(folder) as found:
            later = {entry.name: entry for entry in islice(found.entries, MOST_NAMES) if entry.name > after}
            names = sorted(filter(_is_text, later))
            shown = [_look(later[name], found, tags=tags) for name in names[:limit]]
            left = max(0, len(names) - limit)
            return Page([*filter(None, shown)], names[limit - 1] if left else "", len(later) - left)
    except FileNotFoundError:
        return Page([])
    except OSError as error:
        said, blocked = what_went_wrong(error, folder), error.errno in _IN_THE_WAY
        raise StoreError(f"cannot list {folder}: {said}; {remedy(error)}", blocked=blocked) from error


def _look(entry: os.DirEntry[str], folder: Scanned, *, tags: bool) -> Entry | None:
    """Returns one name of a listing; None for what is gone by now."""
    try:
        if not entry.is_file(follow_symlinks=False):
            return Entry(entry.name, Kind.PREFIX if entry.is_dir(follow_symlinks=False) else Kind.OTHER)
        if not tags:
            return _file(entry.name)
        return _entry(entry.name, folder.stat(entry.name))
    except FileNotFoundError:
        return None
    except OSError:
        return Entry(entry.name, Kind.OTHER)


@lru_cache(MOST_REMEMBERED)
def _file(name: str) -> Entry:
    """Returns the entry of a file without a tag: most names of a listing were in the one before."""
    return Entry(name, Kind.FILE)


def _is_text(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
