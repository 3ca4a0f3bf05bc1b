"""Reach what lies below a root folder by its path, where the system has no openat(2), as Windows.

    read    no link on the way? ─▶ open ─▶ still none? ─▶ descriptor
    write   no link on the way? ─▶ draft ─▶ rename over the target

The promises are those of swarm.store.folder.beneath, but for one: who swaps a link in and out again in the moment
between two looks is not seen. Nothing but views and reports works this way, on one file at a time; nodes need openat.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from swarm.store.folder.beneath import Within

OPENS_FOLDERS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
"""The system opens folders, and what is in them by its name."""
CLOSED_TO_CHILDREN: int = getattr(os, "O_CLOEXEC", 0) or getattr(os, "O_NOINHERIT", 0)
"""Flag of open(2): no child process inherits the descriptor."""
_BINARY: int = getattr(os, "O_BINARY", 0)
_JUNCTION = 0xA0000003
"""Tag of Windows for a folder that leads to another one (IO_REPARSE_TAG_MOUNT_POINT)."""
_MEANS_MORE = ("\\", ":")
"""In a name, to Windows: another folder, a drive, or a second stream of a file."""
_EXTENDED = "\\\\?\\"


class Scanned(NamedTuple):
    """A folder while it is listed."""

    entries: Iterator[os.DirEntry[str]]
    stat: Callable[[str], os.stat_result]
    """What stands at a name in it, without following a link. Raises OSError."""


def native(path: str | Path, *, windows: bool = os.name == "nt") -> str:
    """Returns a path as the system is to be told of it.

    To Windows in the extended form, which may be longer than 260 characters, and in which names such as `nul.json`
    are files and not devices.
    """
    full = os.path.abspath(path)
    if not windows or full.startswith(_EXTENDED):
        return full
    return f"{_EXTENDED}UNC{full[1:]}" if full.startswith("\\\\") else _EXTENDED + full


def open_file(file: Within, flags: int) -> int:
    """Opens a regular file by its path; it stands in for beneath.open_beneath. Raises OSError: ENXIO where something
    else stands there."""
    path = _walked(file)
    if not stat.S_ISREG(os.lstat(path).st_mode):  # a pipe would block who opens it
        raise OSError(errno.ENXIO, "not a regular file", str(file))
    descriptor = os.open(path, flags | _BINARY | CLOSED_TO_CHILDREN)
    try:
        _walked(file)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def stat_of(place: Within) -> os.stat_result:
    """Returns the stat of a place by its path; it stands in for beneath.stat_beneath."""
    return os.lstat(_named(_walked(place.parent), place.name))


@contextmanager
def scanned(folder: Within) -> Iterator[Scanned]:
    """Yields the entries of a folder by its path; it stands in for beneath.scanned."""
    path = _walked(folder)
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    with os.scandir(path) as entries:
        yield Scanned(entries, lambda name: os.lstat(path + os.sep + name))


def write(target: Within, data: bytes | Iterable[bytes], drafts: Within, *, durable: bool) -> None:
    """Write a file whole or not at all, in the place of the one that is there. Raises OSError."""
    place = _named(_made(target.parent), target.name)
    draft = _made(drafts) + os.sep + f"{uuid.uuid4().hex}.tmp"
    try:
        with open(draft, "xb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def remove(place: Within) -> None:
    """Remove a file or link, or a folder with all that is in it; links inside are removed, not followed.

    Raises:
        OSError: something could not be removed. What is not there is removed already.
    """
    with contextlib.suppress(FileNotFoundError):
        path = _named(_walked(place.parent), place.name)
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and not _leads_elsewhere(found):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _walked(place: Within) -> str:
    """Returns the path of a place, seen to have no link on the way or at its end.

    Raises:
        FileNotFoundError: it is not there.
        OSError: ELOOP for a link, EINVAL for a name that the system would take apart.
    """
    path = native(place.chosen)
    os.stat(path)
    for name in place.steps:
        path = _named(path, name)
        if _leads_elsewhere(os.lstat(path)):
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed", path)
    return path


def _made(folder: Within) -> str:
    """Returns a folder's path and makes the folder if it is missing. Raises OSError (ELOOP) where a link stands on the
    way."""
    path = native(folder.chosen)
    os.makedirs(path, exist_ok=True)
    for name in folder.steps:
        path = _named(path, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        if _leads_elsewhere(os.lstat(path)):
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed", path)
    return path


def _named(above: str, name: str) -> str:
    """Returns the path of a name within a folder. Raises OSError: EINVAL for one that would be taken apart."""
    path = above + os.sep + name
    if is_taken_apart(name):
        raise OSError(errno.EINVAL, "the path leads elsewhere", path)
    return path


def is_taken_apart(name: str, *, windows: bool = os.name == "nt") -> bool:
    """Tells whether a system takes a name for more than one."""
    return name == ".." or "/" in name or (windows and any(mark in name for mark in _MEANS_MORE))


def _leads_elsewhere(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == _JUNCTION
