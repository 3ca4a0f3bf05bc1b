"""Write a file so that readers see it whole or not at all, now and after a power cut."""

from __future__ import annotations

import contextlib
import os
import uuid
from itertools import takewhile
from pathlib import Path

from swarm.errors import FolderError


def publish(target: Path, data: bytes, temporary: Path, *, durable: bool = True) -> None:
    """Write to a temporary name outside every watched folder, then rename over the target.

    Blocking; 60 kB takes some 7 ms when durable, 0.1 ms when not, so the caller is a thread.

    Args:
        temporary: the node's own folder for half-written files, on the same file system as the target.
        durable: fsync the file, its folder and, where that one is new, those above it, so that what was acknowledged
            survives a power cut.

    Raises:
        FolderError: the folder is full, read-only or gone; the target is then as it was.
    """
    half = temporary / f"{uuid.uuid4().hex}.tmp"
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        grown = _make_folder(target.parent)
        write_new(half, data, durable=durable)
        half.rename(target)
        if durable:
            for folder in (target.parent, *grown):
                sync_folder(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise FolderError(
            f"cannot write {target}: {error.strerror or error}; see that the folder is there, writable and not full"
        ) from error


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it, and return the ones that got a new entry by that."""
    missing = list(takewhile(lambda place: not place.exists(), (folder, *folder.parents)))
    folder.mkdir(parents=True, exist_ok=True)
    return [made.parent for made in missing]


def write_new(file: Path, data: bytes, *, durable: bool) -> None:
    """Write a file that is not there yet; on disk when this returns, if durable. Raises OSError."""
    with file.open("xb") as stream:
        stream.write(data)
        stream.flush()
        if durable:
            os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable. Some network mounts refuse to sync a folder; they get what they give."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
