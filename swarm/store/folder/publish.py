"""Write a file so that readers see it whole or not at all, now and after a power cut.

    temporary/{random}.tmp  ─write, fsync─▶  ─rename─▶  target  ─fsync its folder─▶ acknowledged

Whoever dies on the way leaves the target as it was, or as it was to be, and at most a file among the temporary ones.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path

from swarm.errors import StoreError
from swarm.store.folder.beneath import made_folder, opened_folder, what_went_wrong

_NOT_ON_DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE)
"""What fsync of a folder says where the folder was lost; anything else is a mount that syncs no folders."""


def publish(target: Path, data: bytes, temporary: Path, *, durable: bool = True) -> None:
    """Write to a temporary name outside every watched folder, then rename over the target.

    Blocking; 60 kB takes some 7 ms when durable, 0.1 ms when not, so the caller is a thread. In an experiment, no link
    below the experiment's folder is followed.

    Args:
        temporary: the node's own folder for half-written files, on the same file system as the target.
        durable: fsync the file, its folder and, where that one is new, those above it, so that what was acknowledged
            survives a power cut.

    Raises:
        StoreError: the folder is full, read-only or gone, or a link stands in the place of one. The target is as it
            was, or, where only its folder could not be brought to disk, whole and new.
    """
    try:
        with made_folder(temporary) as (drafts, _), made_folder(target.parent) as (place, grown):
            _replace(target.name, place, data, drafts, durable=durable)
            if durable:
                _sync(place)
                for folder in grown:
                    sync_folder(folder)
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {what_went_wrong(error, target.parent)}; "
            f"see that the folder is there, writable and not full"
        ) from error


def _replace(name: str, place: int, data: bytes, drafts: int, *, durable: bool) -> None:
    """Write a draft in one folder and rename it to a name in another; no draft stays behind."""
    draft = f"{uuid.uuid4().hex}.tmp"
    try:
        _write_new(draft, drafts, data, durable=durable)
        try:
            os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=place)
        except OSError:
            if not _holds(name, place, data):
                raise
            with contextlib.suppress(OSError):  # done by the server all the same, as NFS is known for
                os.unlink(draft, dir_fd=drafts)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=drafts)
        raise


def _holds(name: str, folder: int, data: bytes) -> bool:
    """Whether a file is there and has just this content."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(name, flags, dir_fd=folder), "rb") as file:
            return file.read(len(data) + 1) == data
    except OSError:
        return False


def write_new(file: Path, data: bytes, *, durable: bool) -> None:
    """Write a file that is not there yet; on disk when this returns, if durable. Raises OSError."""
    with opened_folder(file.parent) as folder:
        _write_new(file.name, folder, data, durable=durable)


def _write_new(name: str, folder: int, data: bytes, *, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable. Some network mounts refuse to sync a folder; they get what they give.

    Raises:
        OSError: it is not there, or could not be brought to disk.
    """
    with opened_folder(folder) as descriptor:
        _sync(descriptor)


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno in _NOT_ON_DISK:
            raise
