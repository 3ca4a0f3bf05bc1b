"""Files that grow by records, one per line: appended to by one writer, read on by anybody while they grow.

A file is known again by a digest of its first bytes, at most _HEAD and at most as many as were read.

Logs must not fill a disk, so a full one becomes its older part, in the place of the one before. For readers the two are
one file, of which the oldest lines go. Rows of metrics are the record of a run, and never go.

    training_events.jsonl    ─ MOST_OF_PART bytes ─▶ training_events.jsonl.1 ─ at the next time ─▶ gone
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from io import BufferedReader

from swarm.errors import ProtocolError, StoreError
from swarm.lines import LineFile
from swarm.store.base import Records, bytes_of_end
from swarm.store.folder.beneath import NO_WAITING, Within, make_folder, open_beneath, rename_beneath
from swarm.store.folder.fetch import open_regular
from swarm.store.folder.publish import IN_THE_WAY, clear, failing_to_write, may_clear, sync_folder
from swarm.store.records import Cursor, read_end
from swarm.store.records import read_on as read_records

_HEAD = 256
"""Bytes at a file's start by which it is known again: the first record's timestamp is among them."""
_ATTEMPTS = 3
ROTATED = frozenset({"training_events.jsonl", "stdout.log"})
"""Names of logs that have an older part."""
MOST_OF_PART = 32 * 2**20
"""Bytes: some 16,000 rounds at least. A log takes twice that at most."""
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_WAITING


def append(file: Within, lines: Sequence[bytes], drafts: Within, *, durable: bool, once: bool) -> None:
    """Appends records, one per line; it implements Store.append_records.

    Raises:
        StoreError: it cannot be written.
    """
    joined = b"\n".join(lines)
    with failing_to_write(file), closing(LineFile(lambda: open_to_append(file, drafts))) as growing:
        new = not growing.has_lines()
        growing.cut_torn_line()
        if not (once and growing.ends_with(joined)):
            growing.write(joined, fsync=durable)
        elif durable:  # it got there before an error, and perhaps no further than into memory
            os.fsync(growing.fileno())
        if durable and new:
            sync_folder(file.parent)


def open_to_append(file: Within, drafts: Within) -> int:
    """Returns a descriptor of a regular file that has no other name, made if it is missing; its folders must be no
    links.

    What stands in its way goes, see swarm.store.folder.publish.

    Raises:
        OSError: it cannot be opened, or somebody puts something there again and again.
    """
    for folder in make_folder(file.parent):
        sync_folder(folder)
    for _ in range(_ATTEMPTS):
        try:
            return _open_alone(file)
        except OSError as error:
            if error.errno not in (*IN_THE_WAY, errno.EACCES, errno.EPERM) or not may_clear(file):
                raise
            clear(file, drafts)
    return _open_alone(file)


def _open_alone(file: Within) -> int:
    """Raises OSError: EEXIST where something else stands there than a file that has this name alone."""
    descriptor = open_beneath(file, _FLAGS, 0o644)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EEXIST, "expected a regular file without another name (a hard link)")


def older_part(file: Within) -> Within | None:
    """Returns where the older lines of a log lie ; None for what is never rotated."""
    return file.parent / f"{file.name}.1" if file.names and file.name in ROTATED else None


def read_on(file: Within, cursor: str, limit: int) -> Records:
    """Reads on from a cursor, in a log with an older part that part first, as one file; it implements
    Store.read_records."""
    with ExitStack() as opened:
        parts = _parts(file, opened)
        if not parts:
            return Records([], cursor)
        if wanted := bytes_of_end(cursor):
            return _read_end(parts, wanted, limit)
        known = Cursor.parsed(cursor)
        at = _part_of(parts, known)
        found = _read_on(parts[at or 0], known, limit)
        if found.records or found.more or at == len(parts) - 1 or len(parts) == 1:
            return found._replace(more=found.more or (at or 0) < len(parts) - 1)
        newer = _read_on(parts[-1], Cursor(), limit)
        begun = Cursor.parsed(newer.cursor).offset > 0
        return newer._replace(cursor=newer.cursor if begun else found.cursor, restarted=found.restarted)


def _read_end(parts: Sequence[BufferedReader], wanted: int, limit: int) -> Records:
    """Reads the last bytes: of the newest part, or where that has fewer of the one before it."""
    newest = os.fstat(parts[-1].fileno()).st_size
    if len(parts) == 1 or wanted < newest:
        return _read(parts[-1], Cursor(), limit, wanted)
    found = _read(parts[0], Cursor(), limit, max(1, wanted - newest))
    return found._replace(more=True)


def _parts(file: Within, opened: ExitStack) -> list[BufferedReader]:
    """Returns the older part of a log and the one that grows, those that are there; the same file but once.

    The one that grows is opened first: if it is rotated meanwhile, it is found again as the older one, or that is one
    more part behind.
    """
    older = older_part(file)
    parts: list[BufferedReader] = []
    with suppress(FileNotFoundError):
        parts.append(opened.enter_context(_opened(file)))
    if older is not None:
        with suppress(FileNotFoundError, ProtocolError):
            parts.insert(0, opened.enter_context(_opened(older)))
    same = len(parts) == 2 and os.path.sameopenfile(parts[0].fileno(), parts[1].fileno())
    return parts[1:] if same else parts


def _opened(file: Within) -> BufferedReader:
    return open(open_regular(file), "rb")


def _part_of(parts: Sequence[BufferedReader], cursor: Cursor) -> int | None:
    """Returns which of the parts a cursor is of; None: of none of them."""
    if not cursor.offset:
        return 0
    return next((at for at, part in enumerate(parts) if _is_of(part, cursor)), None)


def _is_of(file: BufferedReader, cursor: Cursor) -> bool:
    size = os.fstat(file.fileno()).st_size
    return size >= cursor.offset and _digest(file, cursor.offset) == cursor.of


def _read_on(file: BufferedReader, cursor: Cursor, limit: int) -> Records:
    same = not cursor.offset or _is_of(file, cursor)
    return _read(file, cursor if same else Cursor(), limit)._replace(restarted=not same)


def _read(file: BufferedReader, cursor: Cursor, limit: int, wanted: int = 0) -> Records:
    """Reads on from a cursor of this file; `wanted`: its last bytes in place of that."""
    size = os.fstat(file.fileno()).st_size

    def read(start: int, end: int) -> bytes:
        file.seek(start)
        return file.read(max(0, end - start))

    what = partial(_digest, file)
    if wanted:
        return read_end(read, size, wanted, limit, what)
    if cursor.in_long:
        cursor = cursor._replace(offset=_next_data(file.fileno(), cursor.offset, size))
    return read_records(read, size, cursor, limit, what)


def _next_data(descriptor: int, offset: int, size: int) -> int:
    """Returns where written bytes come next: a hole of a terabyte costs who made it nothing, and a reader no time.

    Where the system tells of no holes they are read, as far as the limit of one reading goes.
    """
    if not hasattr(os, "SEEK_DATA"):
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return max(offset, size) if error.errno == errno.ENXIO else offset


def _digest(file: BufferedReader, offset: int) -> str:
    """Returns the digest of a file's beginning, of what lies before `offset`."""
    file.seek(0)
    return hashlib.blake2b(file.read(min(offset, _HEAD)), digest_size=8).hexdigest()


# ── rotation ────────────────────────────────────────────────────────────────────────────────────────────────────────
class RotatedLog(LineFile):
    """A LineFile that begins anew where it is full; where that fails it grows on."""

    def __init__(self, opener: Callable[[], int], rotate: Callable[[], None], most: int) -> None:
        """Args:
        opener: as of LineFile.
        rotate: moves the file out of the way; raises OSError or StoreError.
        most: bytes.
        """
        super().__init__(opener)
        self._rotate = rotate
        self._most = most

    def write(self, line: bytes, *, fsync: bool = False) -> None:
        size = self._size()
        if size and size + len(line) >= self._most and not self._is_gone():
            with suppress(OSError, StoreError):
                self._rotate()
                self.reopen()
                self._torn = self._ends_torn()
        super().write(line, fsync=fsync)


def rotate(file: Within, drafts: Within) -> None:
    """Make a log the older part of itself. Raises OSError, StoreError."""
    older = older_part(file)
    assert older
    clear(older, drafts)
    rename_beneath(file, older)
