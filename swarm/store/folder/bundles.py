"""Bundles: many files that are visible whole or not at all.

put       .tmp/{writer}/bundle-* ─rename─▶ prefix
again     prefix ─rename─▶ .tmp/{writer}/replaced-{prefix}, then as above; `recover` puts it back after a death
          between the two
remove    prefix ─rename─▶ .tmp/{writer}/removed-* ─▶ gone
open      links to its files, or copies, in a folder of the reader's own: what is swapped meanwhile is not followed
copy      of what was opened: whoever wrote a linked file can still make it a hole, so all is looked at anew
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

from swarm.errors import ProtocolError, StoreError
from swarm.store.base import MOST_NAMES
from swarm.store.folder.beneath import (
    OPENS_FOLDERS,
    Within,
    is_folder,
    make_folder,
    opened_folder,
    prune,
    remove_tree,
    rename_beneath,
)
from swarm.store.folder.fetch import list_page, refusing
from swarm.store.folder.publish import clear_for_bundle, failing_to_write, may_clear, sync_folder, sync_opened
from swarm.wire import keys

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
_REPLACED = "replaced-"
_PIECE = 1 << 20
_ATTEMPTS = 5
"""Times that a bundle which is replaced while it is opened is opened again."""


def put_bundle(target: Within, fill: Callable[[Path], None], drafts: Within) -> None:
    """Write everything beside, then rename it into place.

    Raises:
        StoreError: it cannot be written; what was there stays.
    """
    half = drafts / f"bundle-{uuid.uuid4().hex}"
    try:
        with failing_to_write(target):
            make_folder(half)
            with opened_folder(half) as folder:
                mode = stat.S_IMODE(os.fstat(folder).st_mode)
                os.fchmod(folder, 0o700)  # nobody puts a link where `fill`, which opens by name, would follow it
                fill(half.path)
                _sync_all(folder, mode & 0o666)
                os.fchmod(folder, mode)
            _swap_in(half, target, drafts)
    finally:
        _remove(half)  # gone already where all went well


def _sync_all(folder: int, mode: int) -> None:
    """Bring it all to disk, each file with the permissions of its siblings: some libraries make private ones."""
    for name in os.listdir(folder):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                _sync_all(descriptor, mode)
            else:
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_opened(folder)


def _swap_in(half: Within, target: Within, drafts: Within) -> None:
    grown = make_folder(target.parent)
    if is_folder(target):  # one that was damaged, or left behind by a run that was taken up before it
        replaced = drafts / (_REPLACED + quote("/".join(target.names), safe=""))
        _remove(replaced)  # left by an earlier one, and stale while there is one in place
        rename_beneath(target, replaced)
        try:
            rename_beneath(half, target)
        except OSError:
            rename_beneath(replaced, target)
            raise
    else:
        replaced = None
        if may_clear(target):
            clear_for_bundle(target)
        rename_beneath(half, target)
    for folder in (target.parent, *grown):
        sync_folder(folder)
    if replaced:
        _remove(replaced)


def remove_prefix(prefix: Within, drafts: Within) -> None:
    """Take a folder out of sight, then remove it; the folder above it goes too if that is empty and no main one.

    Raises:
        StoreError: it cannot be taken out of sight. What cannot be removed then is left to `recover`.
    """
    gone = drafts / f"removed-{uuid.uuid4().hex}"
    with failing_to_write(prefix):
        make_folder(drafts)
        with contextlib.suppress(FileNotFoundError):
            rename_beneath(prefix, gone)
    _remove(gone)
    prune(prefix)


def recover(drafts: Within, writer: str) -> None:
    """Put back the bundles whose replacement a death cut short, and remove what else was left half-done.

    Raises:
        StoreError: a bundle cannot be put back.
    """
    try:
        left = list_page(drafts, "", MOST_NAMES, tags=False).entries
    except StoreError:
        return  # the only copy of a bundle may lie there
    for entry in left:
        if entry.name.startswith(_REPLACED) and (prefix := _prefix_of(entry.name, writer)):
            _put_back(drafts / entry.name, replace(drafts, names=prefix))
    _remove(drafts)


def _prefix_of(name: str, writer: str) -> tuple[str, ...] | None:
    """Returns where a replaced bundle was; None for a name that we never gave."""
    said = unquote(name.removeprefix(_REPLACED))
    if (round_ := keys.round_of(said)) is not None:  # a form of earlier versions, which knew checkpoints alone
        said = keys.checkpoint(round_, writer)
    names = tuple(said.split("/"))
    return None if {"", ".", ".."} & {*names} else names


def _put_back(replaced: Within, target: Within) -> None:
    if is_folder(target):
        return
    try:
        make_folder(target.parent)
        rename_beneath(replaced, target)
    except OSError as error:
        raise StoreError(
            f"cannot put the bundle {replaced} back to {target}: {error.strerror or error}; fix the folder"
        ) from error
    from swarm.logs import get_logger  # here, for commands that only look do without it

    get_logger(__name__).warning("checkpoint.put_back", folder=str(target))


def _remove(folder: Within) -> None:
    with contextlib.suppress(OSError):  # found again when the writer starts
        remove_tree(folder)


@contextmanager
def open_bundle(prefix: Within, drafts: Within | None) -> Iterator[Path]:
    """The files of a bundle in a folder of the reader's own, for the block.

    Args:
        drafts: where this folder is made, so that linking will do; None: among the temporary files of this machine.

    Raises:
        FileNotFoundError: it is not there.
        ProtocolError: `not_a_file` where no folder stands there, `oversized` for too many files, folders too deep, or
            files that are all but a hole, or `unreadable`.
        StoreError: the reader's own folder cannot be written.
    """
    for _ in range(_ATTEMPTS):
        folder = _own_folder(drafts)
        try:
            if _gather(prefix, folder):
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    raise ProtocolError("unreadable", f"{prefix} is replaced again and again")


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
        _take(folder, into, _Room(), linked=False)
    finally:
        os.close(folder)


def _own_folder(drafts: Within | None) -> Path:
    try:
        if drafts is None:
            return Path(tempfile.mkdtemp(prefix="swarm-"))
        own = drafts / f"opened-{uuid.uuid4().hex}"
        make_folder(own)
    except OSError as error:
        raise StoreError(f"cannot make a folder to open a bundle in: {error}; free space or fix the folder") from error
    return own.path


def _gather(prefix: Within, own: Path) -> bool:
    """Collect the files; False if the bundle was replaced or removed meanwhile, so that they may not be all."""
    with refusing(prefix, errno.ENOTDIR, errno.ELOOP):
        with opened_folder(prefix) as folder:
            _take(folder, own, _Room())
            there = os.fstat(folder)
        with opened_folder(prefix) as folder:
            return os.path.samestat(there, os.fstat(folder))


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


def _take(folder: int, own: Path, room: _Room, depth: int = 0, *, linked: bool = True) -> None:
    """Link or copy what is in a folder, links and odd files left out."""
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
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "rb") as source, open(copy, "xb") as target:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            _copy(source, target, size)


def _written(name: str, folder: int, size: int) -> int:
    """Returns bytes of a file that are no hole, where the system tells of holes; 0 for one of very many."""
    if not hasattr(os, "SEEK_DATA"):
        return size
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
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
