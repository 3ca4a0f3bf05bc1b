"""Bounded reads of files that strangers wrote, and listings, which are the truth about the folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from swarm.errors import ProtocolError, StoreError
from swarm.store.folder.beneath import open_beneath, opened_folder, what_went_wrong
from swarm.wire.layout import node_of

MOST_NAMES = 500_000
"""A listing ends after so many, at 0.3 s and 64 MB, should a folder be flooded. Runs have some thousands."""


def read_bounded(file: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; never follows a symlink of a stranger, never blocks on a FIFO.

    Raises:
        FileNotFoundError: it is not there (any more).
        ProtocolError: `oversized`, `not_a_file` (symlink, FIFO, socket, folder, device) or `unreadable`.
    """
    descriptor = open_regular(file)
    try:
        return _read(descriptor, limit, file)
    except OSError as error:
        raise ProtocolError("unreadable", f"{file}: {error.strerror or error}") from None
    finally:
        os.close(descriptor)


def open_regular(file: Path) -> int:
    """A descriptor to read a stranger's file by, which the caller closes. Raises as read_bounded does."""
    try:
        descriptor = open_beneath(file, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "not_a_file" if error.errno in (errno.ELOOP, errno.ENXIO) else "unreadable"
        raise ProtocolError(reason, f"{file}: {what_went_wrong(error, file)}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ProtocolError("not_a_file", f"{file} is not a regular file")
    return descriptor


def _read(descriptor: int, limit: int, file: Path) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > limit:
        raise ProtocolError("oversized", f"{file} has {size} bytes, the limit is {limit}")
    at_once = max(size + 1, 1 << 20)  # whole, unless it grows: to join parts takes its memory twice
    parts, size = [], 0
    while part := os.read(descriptor, min(limit + 1 - size, at_once)):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise ProtocolError("oversized", f"{file} grew above the limit of {limit} bytes while it was read")
    return b"".join(parts)


def list_nodes(folder: Path) -> set[str]:
    """The nodes that have a `{node}.json` in this folder; empty where the folder does not exist yet.

    Raises:
        StoreError: the folder cannot be listed.
    """
    return {node for name in list_names(folder) if (node := node_of(name))}


def list_numbered(folder: Path, number_of: Callable[[str], int | None]) -> list[int]:
    """The numbers of the `round_R` or `stage_S` folders in here, in order."""
    return sorted(number for name in list_names(folder) if (number := number_of(name)) is not None)


def list_names(folder: Path) -> list[str]:
    """The names in a folder, in no order, none where it is missing; those not in UTF-8 are left out.

    Raises:
        StoreError: the folder cannot be listed, or a link stands in its place.
    """
    try:
        with opened_folder(folder) as descriptor, os.scandir(descriptor) as entries:
            return [entry.name for entry in islice(entries, MOST_NAMES) if _is_text(entry.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        said = what_went_wrong(error, folder)
        raise StoreError(f"cannot list {folder}: {said}; see that it is there and readable") from error


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
