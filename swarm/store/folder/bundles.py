"""Bundles: many files that are visible whole or not at all.

put       .tmp/{writer}/bundle-* ─rename─▶ prefix
again     prefix ─rename─▶ .tmp/{writer}/replaced-{prefix}, then as above; `recover` puts it back after a death
          between the two
remove    prefix ─rename─▶ .tmp/{writer}/removed-* ─▶ gone
open      links to its files, or copies, in a folder of the reader's own: what is swapped meanwhile is not followed
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

from swarm.errors import StoreError
from swarm.store.base import MOST_NAMES
from swarm.store.copies import opened, take
from swarm.store.folder.beneath import (
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

_REPLACED = "replaced-"


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


def recover(drafts: Within) -> None:
    """Put back the bundles whose replacement a death cut short, and remove what else was left half-done.

    Raises:
        StoreError: a bundle cannot be put back.
    """
    try:
        left = list_page(drafts, "", MOST_NAMES, tags=False).entries
    except StoreError:
        return  # the only copy of a bundle may lie there
    for entry in left:
        if entry.name.startswith(_REPLACED) and (prefix := _prefix_of(entry.name)):
            _put_back(drafts / entry.name, replace(drafts, names=prefix))
    _remove(drafts)


def _prefix_of(name: str) -> tuple[str, ...] | None:
    """Returns where a replaced bundle was; None for a name that we never gave."""
    names = tuple(unquote(name.removeprefix(_REPLACED)).split("/"))
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
    with opened(str(prefix), partial(_gather, prefix), partial(_linking, drafts) if drafts else None) as folder:
        yield folder


def _linking(drafts: Within) -> Path:
    """Returns a folder on the file system of the place, to link in."""
    own = drafts / f"opened-{uuid.uuid4().hex}"
    make_folder(own)
    return own.path


def _gather(prefix: Within, own: Path) -> bool:
    """Collect the files; False if the bundle was replaced or removed meanwhile, so that they may not be all."""
    with refusing(prefix, errno.ENOTDIR, errno.ELOOP):
        with opened_folder(prefix) as folder:
            take(folder, own)
            there = os.fstat(folder)
        with opened_folder(prefix) as folder:
            return os.path.samestat(there, os.fstat(folder))
