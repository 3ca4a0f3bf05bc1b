"""Reach what lies below a root folder without ever leaving it, whatever links a stranger put there.

    <path>/experiments/<name>      the root: the user's own choice, links in it are followed
           rollouts/round_9/...    written by anybody: opened one by one, each without following a link

O_NOFOLLOW guards the last name of a path alone. So every folder on the way is opened by its name within the folder
before it (openat), which works on Linux and macOS alike. Where the system has no openat, as Windows, what views and
reports read and write is reached by its path, and looked at first.

Where the folder of a round or stage, of a node's logs or of drafts is to be made and a link or a file stands in its
place, that goes: no node ever puts one there, and it would keep nodes from writing. In the place of any other folder,
such as `checkpoints`, it stays and is refused, for it may be the user's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from swarm.wire.keys import DRAFTS, LOGS, round_of, stage_of

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
EXPERIMENTS = "experiments"
"""The folder of all experiments in a shared folder."""
_AT_ONCE = 1000
"""Names of a folder that are held in memory while it is removed."""
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0) | CLOSED_TO_CHILDREN | _BINARY
"""Flags of open(2): the last name is no link."""
NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)
"""Flag of open(2): a pipe keeps nobody."""
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOSED_TO_CHILDREN


class Scanned(NamedTuple):
    """A folder while it is listed."""

    entries: Iterator[os.DirEntry[str]]
    stat: Callable[[str], os.stat_result]
    """What stands at a name in it, without following a link. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Within:
    """A path below a root: links are followed up to the root, or to some names before its end, and no further."""

    root: Path
    names: tuple[str, ...] = ()
    by_path: bool = not OPENS_FOLDERS
    """Each name is reached by its path, and not within the folder above it."""
    below: int = 0
    """So many of the root's last names may be no links either: what is above them is the user's own choice."""
    anew: bool = True
    """The root may be made; False: it was there, and where it is gone, so is the mount that it lies in."""

    @property
    def chosen(self) -> Path:
        """Returns the folder up to which links are followed."""
        return self.root.parents[self.below - 1] if self.below else self.root

    @property
    def steps(self) -> tuple[str, ...]:
        """Returns the names from there on."""
        return (*self.root.parts[len(self.root.parts) - self.below :], *self.names)

    @property
    def parent(self) -> Within:
        """Returns the folder that it is in. Raises ValueError for the root itself, which is nobody's to replace."""
        if not self.names:
            raise ValueError(f"expected a place below {self.root}, got the root itself")
        return replace(self, names=self.names[:-1])

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.names)

    def __truediv__(self, name: str) -> Within:
        return replace(self, names=(*self.names, name))

    def __str__(self) -> str:
        return os.path.join(self.root, *self.names)


@contextmanager
def opened_folder(folder: Within, grown: list[Within] | None = None) -> Iterator[int]:
    """A descriptor of a folder, to name what is in it by.

    Args:
        grown: make what is missing, and add the folders that got a new entry by that.

    Raises:
        FileNotFoundError: it is not there, and not to be made.
        OSError: ELOOP where a link stands in the place of one of the experiment's folders, and as open(2) does.
    """
    descriptor = _descend(folder, grown)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_folder(path: Within) -> bool:
    """Tells whether a folder can be reached without following a link below the experiment's own folder."""
    try:
        with opened_folder(path):
            return True
    except OSError:
        return False


@contextmanager
def reached(place: Within, grown: list[Within] | None = None) -> Iterator[tuple[str, int | None]]:
    """Yields what a place is called, for the block, and the descriptor that this is relative to (`dir_fd`), if any.

    Args:
        grown: as of opened_folder.

    Raises:
        OSError: as opened_folder; EINVAL for a name that the system would take apart.
    """
    if place.by_path:
        yield _named(_walked(place.parent, make=grown is not None), place.name), None
        return
    with opened_folder(place.parent, grown) as folder:
        yield place.name, folder


@contextmanager
def scanned(folder: Within) -> Iterator[Scanned]:
    """A folder to list; it must be reached without following a link. Raises OSError."""
    if folder.by_path:
        path = _walked(folder)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        with os.scandir(path) as entries:
            yield Scanned(entries, lambda name: os.lstat(path + os.sep + name))
        return
    with opened_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        yield Scanned(entries, lambda name: os.stat(name, dir_fd=descriptor, follow_symlinks=False))


def stat_beneath(place: Within) -> os.stat_result:
    """Returns the stat of a place in an experiment; its folders must not be links. Raises OSError."""
    with reached(place) as (name, folder):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def open_beneath(file: Within, flags: int, mode: int = 0o666, folder: int | None = None) -> int:
    """os.open for a file in an experiment; neither its folders nor the file may be links. Raises OSError.

    Args:
        folder: descriptor of the folder that it is in; None: it is opened for this file alone.
    """
    if file.by_path:
        return _open_by_path(file, flags)
    if folder is None:
        with opened_folder(file.parent) as folder:
            return open_beneath(file, flags, mode, folder)
    return os.open(file.name, flags | NO_LINK, mode, dir_fd=folder)


def make_folder(folder: Within) -> list[Within]:
    """mkdir -p in an experiment; returns the folders that got a new entry by that. Raises OSError."""
    if folder.by_path:
        _walked(folder, make=True)
        return []
    grown: list[Within] = []
    with opened_folder(folder, grown):
        return grown


def rename_beneath(source: Within, target: Within) -> None:
    """os.rename within an experiment; both folders have to be there. A link at either name is itself renamed."""
    with reached(source) as (old, origin), reached(target) as (new, place):
        os.replace(old, new, src_dir_fd=origin, dst_dir_fd=place)


def unlink(file: Within) -> None:
    """Remove a file or link. Raises OSError."""
    with reached(file) as (name, folder):
        os.unlink(name, dir_fd=folder)


def remove_tree(folder: Within, most: int = 10**9) -> None:
    """Remove a folder of an experiment with all that is in it, however deep; links inside are removed, not followed.

    Args:
        most: names that are removed; where there are more, the rest stays.

    Raises:
        OSError: something could not be removed, or the folder is a link. What is not there is removed already.
    """
    if folder.by_path:
        _remove_tree_by_path(folder)
        return
    with contextlib.suppress(FileNotFoundError), opened_folder(folder.parent) as parent:
        if stat.S_ISLNK(os.stat(folder.name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed", str(folder))
        top = os.open(folder.name, _FOLDER | NO_LINK, dir_fd=parent)
        try:
            while most > 0 and (names := _some_names(top)):
                most -= len(names)
                for name in names:
                    _remove_one(name, top)
        finally:
            os.close(top)
        if most > 0:
            os.rmdir(folder.name, dir_fd=parent)


def _some_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _AT_ONCE)]


def _remove_one(name: str, top: int) -> None:
    """Remove a file, or a folder whose own folders are first brought to the top: no depth is too deep that way."""
    if not _unlinked(name, top):
        below = os.open(name, _FOLDER | NO_LINK, dir_fd=top)
        try:
            while names := _some_names(below):
                for each in names:
                    if not _unlinked(each, below):
                        os.replace(each, uuid.uuid4().hex, src_dir_fd=below, dst_dir_fd=top)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=top)


def _unlinked(name: str, folder: int) -> bool:
    """Remove a name that is no folder's; False for a folder."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def prune(removed: Within) -> None:
    """Remove the folders above what was removed, as far as they are empty now and no main one of the experiment."""
    folder = removed.parent
    if folder.by_path:
        return
    with contextlib.suppress(OSError):  # others have something there
        while len(folder.names) > 1:
            with opened_folder(folder.parent) as parent:
                os.rmdir(folder.name, dir_fd=parent)
            folder = folder.parent


def what_went_wrong(error: OSError, asked_for: Within) -> str:
    """Returns the system's words, and which folder they are about, if it is another than what was asked for."""
    said = error.strerror or str(error)
    at = error.filename if isinstance(error.filename, str) else ""
    return f"{said} ({at})" if os.sep in at and at != str(asked_for) else said


def _descend(folder: Within, grown: list[Within] | None) -> int:
    """Open a folder, making what is missing where `grown` takes note of it."""
    if folder.by_path:
        raise OSError(errno.ENOTSUP, "this system opens no folders; what nodes write needs Linux or macOS", str(folder))
    if ".." in folder.names:
        raise OSError(errno.EINVAL, "the path leads upwards", str(folder))
    at = _open_chosen(folder.chosen, grown if folder.anew else None)
    for depth, name in enumerate(folder.steps):
        above = at
        try:
            at = os.open(name, _FOLDER | NO_LINK, dir_fd=above)
        except OSError as error:  # only now it matters which folder this is: what is to be made of it, or said
            at = _opened_after(error, above, name, folder, depth, grown)
        finally:
            os.close(above)
    return at


def _above(folder: Within, depth: int) -> Within:
    """Returns where one is after so many steps on the way to a folder."""
    if depth >= folder.below:
        return Within(folder.root, folder.names[: depth - folder.below], by_path=False, below=folder.below)
    return Within(folder.chosen.joinpath(*folder.steps[:depth]), by_path=False, below=depth)


def _open_chosen(root: Path, grown: list[Within] | None) -> int:
    try:
        return os.open(root, _FOLDER)
    except FileNotFoundError:
        if grown is None:
            raise
        missing = takewhile(lambda place: not place.exists(), (root, *root.parents))
        grown.extend(Within(made.parent) for made in missing)
        root.mkdir(parents=True, exist_ok=True)
        return os.open(root, _FOLDER)


def _opened_after(error: OSError, above: int, name: str, folder: Within, depth: int, grown: list[Within] | None) -> int:
    """Opens a folder on the way to another one, once what is missing is made, and what is in the way is gone.

    Args:
        error: why it could not be opened; raised again where nothing may be made or has to stay.
        above: descriptor of the folder that it is in.
    """
    place, is_the_experiments = _above(folder, depth), depth >= folder.below
    try:
        if grown is None or not (folder.anew or is_the_experiments):
            raise error
        if not isinstance(error, FileNotFoundError):
            if not (is_the_experiments and _is_ours(place, name)):
                raise error
            _clear_way(error, above, name)
            tell_of_obstacle((place / name).path)
        with contextlib.suppress(FileExistsError):  # another node made it in between
            os.mkdir(name, dir_fd=above)
            grown.insert(0, place)
        return os.open(name, _FOLDER | NO_LINK, dir_fd=above)
    except OSError as failed:
        failed.filename = str(place / name)
        if _is_link(above, name):  # Linux says ENOTDIR and macOS ELOOP
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed", failed.filename) from None
        raise


def _clear_way(error: OSError, above: int, name: str) -> None:
    """Take away what stands in the place of a folder that only nodes make. Raises the error where it has to stay."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # another node was quicker
        if isinstance(error, PermissionError):
            _open_up(above, name)
        elif error.errno in (errno.ENOTDIR, errno.ELOOP):
            os.unlink(name, dir_fd=above)
        else:
            raise error


def _open_up(above: int, name: str) -> None:
    """A folder that is closed to us: ours is opened again, another's is renamed aside with what is in it."""
    with contextlib.suppress(PermissionError):
        os.close(os.open(name, _FOLDER | NO_LINK, dir_fd=above))
        return  # another node was quicker
    found = os.stat(name, dir_fd=above, follow_symlinks=False)
    if found.st_uid == os.geteuid():
        os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IRWXU, dir_fd=above)
    else:
        os.replace(name, aside(name), src_dir_fd=above, dst_dir_fd=above)


def aside(name: str) -> str:
    """Returns a new name for what stood in the way and may still be of use to somebody."""
    return f"{name}.aside-{uuid.uuid4().hex[:8]}"


def _is_ours(place: Within, name: str) -> bool:
    """Tells whether a folder is one of those that only nodes make: no user keeps anything there."""
    if round_of(name) is not None or stage_of(name) is not None:
        return True
    return place.names in ((DRAFTS,), (LOGS,)) or (not place.names and name == DRAFTS)


def tell_of_obstacle(path: Path) -> None:
    """Log that something went which stood in the way."""
    from swarm.logs import get_logger  # here, for commands that only look do without it

    get_logger(__name__).warning("obstacle.removed", path=str(path))


def _is_link(above: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except OSError:
        return False


# ── what the system says ─────────────────────────────────────────────────────────────────────────────────────────────
_FULL = "free space there, or ask for a larger quota"
_MAY_NOT = "have its owner let this user read and write there (`ls -ld` shows whose it is; chmod, chown)"
_AWAY = "see that the shared folder is there, and mounted"
_IN_THE_WAY = "something else stands there: move it away"
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _MAY_NOT,
    errno.EPERM: _MAY_NOT,
    errno.EROFS: "have it mounted for writing",
    errno.ENOENT: _AWAY,
    errno.ESTALE: _AWAY,
    errno.ENOTCONN: _AWAY,
    errno.EIO: "see that the disk or the mount still works (`dmesg`)",
    errno.EMFILE: "let more files be open at once: `ulimit -n 4096` before the start",
    errno.ENFILE: "close other programs: the whole machine has no more open files",
    errno.EISDIR: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.ELOOP: _IN_THE_WAY,
    errno.ENOTEMPTY: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
}
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""What the system says where nothing of that name can be."""


def remedy(error: OSError) -> str:
    """Returns what a person can do about an error of the system."""
    return _REMEDIES.get(error.errno or 0, "see that the folder is there, readable, writable and not full")


# ── where the system opens no folders ────────────────────────────────────────────────────────────────────────────────
def native(path: str | Path, *, windows: bool = os.name == "nt") -> str:
    """Returns a path as the system is to be told of it.

    To Windows in the extended form, which may be longer than 260 characters, and in which names such as `nul.json`
    are files and not devices.
    """
    full = os.path.abspath(path)
    if not windows or full.startswith(_EXTENDED):
        return full
    return f"{_EXTENDED}UNC{full[1:]}" if full.startswith("\\\\") else _EXTENDED + full


def _open_by_path(file: Within, flags: int) -> int:
    """Opens a regular file by its path; it stands in for open_beneath. Raises OSError: ENXIO where something
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


def _remove_tree_by_path(place: Within) -> None:
    """Removes a folder with all that is in it, or what stands in its place; it stands in for remove_tree."""
    with contextlib.suppress(FileNotFoundError), reached(place) as (path, _):
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and not _leads_elsewhere(found):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _walked(place: Within, *, make: bool = False) -> str:
    """Returns the path of a place, seen to have no link on the way or at its end.

    Args:
        make: the folders that are missing.

    Raises:
        FileNotFoundError: it is not there.
        OSError: ELOOP for a link, EINVAL for a name that the system would take apart.
    """
    path = native(place.chosen)
    os.makedirs(path, exist_ok=True) if make else os.stat(path)
    for name in place.steps:
        path = _named(path, name)
        if make:
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
