"""Write a file so that readers see it whole or not at all, now and after a power cut.

    temporary/{random}.tmp  ─write, fsync─▶  ─rename─▶  target  ─fsync its folder─▶ acknowledged

Whoever dies on the way leaves the target as it was, or as it was to be, and at most a file among the temporary ones.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from swarm.errors import AlreadyThereError, StoreError
from swarm.store.folder.beneath import (
    EXPERIMENTS,
    NO_LINK,
    NO_WAITING,
    Within,
    aside,
    make_folder,
    opened_folder,
    reached,
    remedy,
    remove_tree,
    tell_of_obstacle,
    what_went_wrong,
)

NOT_ON_DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE)
"""What fsync of a folder says where the folder was lost; anything else is a mount that syncs no folders."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What link says on a mount without hard links, such as FAT and many a FUSE; there nothing has a sure winner."""
BLOCKED = {errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}
"""Something else stands at the place."""


Data = bytes | Iterable[bytes]
"""The bytes of a file, whole or in parts, which are made as they are written."""
_Reached = tuple[str, int | None]
"""As `reached` gives it."""


def publish(
    target: Within,
    data: Data,
    temporary: Within,
    *,
    durable: bool = True,
    if_absent: bool = False,
    own: bool = False,
    mode: int = 0o666,
) -> None:
    """Write to a temporary name outside every watched folder, then rename over the target.

    Blocking; 60 kB takes some 7 ms when durable, 0.1 ms when not, so the caller is a thread. In an experiment, no link
    below the experiment's folder is followed.

    Args:
        temporary: the node's own folder for half-written files, on the same file system as the target.
        durable: fsync the file and its folder, so that what was acknowledged survives a power cut. Where the folder is
            new, those above it are synced in any case.
        own: the name is one that nobody but a node gives: what else stands there goes, a folder too.
        mode: permissions, of which the umask takes some.

    Raises:
        AlreadyThereError: something is there, and is to be replaced by nothing.
        StoreError: the folder is full, read-only or gone, or a link stands in the place of one. The target is as it
            was, or, where only its folder could not be brought to disk, whole and new.
    """
    grown: list[Within] = []
    with (
        failing_to_write(target, if_absent=if_absent),
        reached(target, grown) as place,  # first: it may make the root as well
        reached(temporary / f"{uuid.uuid4().hex}.tmp", []) as draft,
    ):
        try:
            _write_whole(place, data, draft, mode, durable=durable, if_absent=if_absent)
        except IsADirectoryError:
            if if_absent or not own or not may_clear(target):
                raise
            clear(target, temporary)
            _write_whole(place, data, draft, mode, durable=durable, if_absent=if_absent)
        if durable and place[1] is not None:
            sync_opened(place[1])
        for folder in grown:  # durable or not: others may count on it that what they are in is there
            sync_folder(folder)


def publish_own(target: Path, data: Data) -> None:
    """Publishes to a file of the user's own, and follows the links above it; in an experiment it follows none."""
    parts = Path(os.path.abspath(target)).parts
    own = next((at + 2 for at in range(len(parts) - 2) if parts[at] == EXPERIMENTS), len(parts) - 1)
    publish_below(Path(*parts[:own]), "/".join(parts[own:]), data)


def publish_below(folder: Path, name: str, data: Data, *, durable: bool = True) -> None:
    """Publishes to a file of a folder that the user names; it follows links to the folder, but none in it.

    Args:
        name: from the folder on, such as `figures/reward.png`.
    """
    place = Within(folder, tuple(name.split("/")))
    publish(place, data, place.parent, durable=durable)


@contextmanager
def failing_to_write(target: Within, *, if_absent: bool = False) -> Iterator[None]:
    """Whatever goes wrong in the block is told as a write that failed.

    Raises:
        AlreadyThereError: something is there, and is to be replaced by nothing.
        StoreError: for any other OSError.
    """
    try:
        yield
    except OSError as error:
        if if_absent and isinstance(error, FileExistsError):
            raise AlreadyThereError(f"{target} is there already") from error
        raise StoreError(
            f"cannot write {target}: {what_went_wrong(error, target.parent)}; {remedy(error)}",
            blocked=error.errno in BLOCKED,
        ) from error


def _write_whole(place: _Reached, data: Data, draft: _Reached, mode: int, *, durable: bool, if_absent: bool) -> None:
    """Write a draft, and bring it to its place; no draft stays behind."""
    try:
        _write_new(draft, data, mode, durable=durable)
        if if_absent and _link(draft, place):
            with contextlib.suppress(OSError):  # it has its name; `recover` removes what is left
                os.unlink(draft[0], dir_fd=draft[1])
        else:
            _rename(draft, place, data)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft[0], dir_fd=draft[1])
        raise


def _rename(draft: _Reached, place: _Reached, data: Data) -> None:
    try:
        os.replace(draft[0], place[0], src_dir_fd=draft[1], dst_dir_fd=place[1])
    except OSError:
        if not (isinstance(data, bytes) and _holds(place, data)):
            raise
        with contextlib.suppress(OSError):  # done by the server all the same, as NFS is known for
            os.unlink(draft[0], dir_fd=draft[1])


def _link(draft: _Reached, place: _Reached) -> bool:
    """Give a draft a name that nobody has, the first of several to ask; False where a mount has no links.

    Raises:
        FileExistsError: something has this name.
    """
    try:
        os.link(draft[0], place[0], src_dir_fd=draft[1], dst_dir_fd=place[1], follow_symlinks=False)
    except FileExistsError:
        if os.stat(draft[0], dir_fd=draft[1]).st_nlink < 2:  # 2: done by the server, and its answer was lost
            raise
    except (OSError, NotImplementedError) as error:  # Windows links no files in this way
        if isinstance(error, OSError) and error.errno not in _NO_LINKS:
            raise
        with contextlib.suppress(FileNotFoundError):
            os.stat(place[0], dir_fd=place[1], follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place[0]) from None
        return False
    return True


def _holds(place: _Reached, data: bytes) -> bool:
    """Tells whether a file is there and has just this content."""
    try:
        with open(os.open(place[0], os.O_RDONLY | NO_LINK | NO_WAITING, dir_fd=place[1]), "rb") as file:
            return file.read(len(data) + 1) == data
    except OSError:
        return False


def _write_new(draft: _Reached, data: Data, mode: int, *, durable: bool) -> None:
    descriptor = os.open(draft[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode, dir_fd=draft[1])
    try:
        for part in [data] if isinstance(data, bytes) else data:
            left = memoryview(part)
            while left:
                left = left[os.write(descriptor, left) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Within) -> None:
    """Make a rename in this folder durable. Some network mounts refuse to sync a folder; they get what they give.

    Raises:
        OSError: it is not there, or could not be brought to disk.
    """
    with opened_folder(folder) as descriptor:
        sync_opened(descriptor)


def sync_opened(folder: int) -> None:
    """Syncs an opened folder as sync_folder does; a file system that cannot is no error."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno in NOT_ON_DISK:
            raise


# ── what stands in the way ───────────────────────────────────────────────────────────────────────────────────────────
IN_THE_WAY = (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.ENXIO)
"""What the system says where something else stands than what is to be written."""
MOST_COPIED = 1 << 30
"""Bytes of a file that is copied to get one of its own; a log of 100,000 rounds has some 200 MB."""
_MOST_REMOVED = 10_000
"""Names of a folder that are removed at once; the rest goes when the writer starts again."""
_PIECE = 1 << 20
_OURS = stat.S_IRUSR | stat.S_IWUSR


def may_clear(place: Within) -> bool:
    """Tells whether what stands at a place of the writer's own may go."""
    return len(place.names) > 1


def clear(place: Within, drafts: Within) -> None:
    """Make room for a file or bundle, if something else than a usable file stands there. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), opened_folder(place.parent) as folder:
        found = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            _clear_folder(place, drafts)
        elif not stat.S_ISREG(found.st_mode):
            os.unlink(place.name, dir_fd=folder)
        elif found.st_nlink > 1 and found.st_size <= MOST_COPIED:
            _make_own(place, folder, drafts)
        elif found.st_nlink > 1 or found.st_uid != os.geteuid():
            os.replace(place.name, aside(place.name), src_dir_fd=folder, dst_dir_fd=folder)
        elif found.st_mode & _OURS != _OURS:
            os.chmod(place.name, stat.S_IMODE(found.st_mode) | _OURS, dir_fd=folder)
        else:
            return
        tell_of_obstacle(place.path)


def clear_for_bundle(place: Within) -> None:
    """Make room for a bundle, if something else than a folder stands there. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), opened_folder(place.parent) as folder:
        if not stat.S_ISDIR(os.stat(place.name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(place.name, dir_fd=folder)
            tell_of_obstacle(place.path)


def _clear_folder(place: Within, drafts: Within) -> None:
    gone = drafts / f"obstacle-{uuid.uuid4().hex}"
    make_folder(drafts)
    with opened_folder(place.parent) as folder, opened_folder(drafts) as there:
        os.replace(place.name, gone.name, src_dir_fd=folder, dst_dir_fd=there)
    with contextlib.suppress(OSError):
        remove_tree(gone, most=_MOST_REMOVED)


def _make_own(place: Within, folder: int, drafts: Within) -> None:
    """Copy a file, with its permissions, over its own name."""
    with open(os.open(place.name, os.O_RDONLY | NO_LINK | NO_WAITING, dir_fd=folder), "rb") as file:
        pieces = takewhile(bool, (file.read(_PIECE) for _ in range(MOST_COPIED // _PIECE)))
        publish(place, pieces, drafts, mode=stat.S_IMODE(os.fstat(file.fileno()).st_mode))
