"""The experiments of a shared folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from swarm.errors import StoreError
from swarm.store.base import MOST_NAMES
from swarm.store.folder.beneath import EXPERIMENTS, NOT_THERE, Within, make_folder, remedy, remove_tree, rename_beneath
from swarm.store.folder.filesystem import OF_THE_KERNEL, filesystem_of, room_at
from swarm.store.folder.store import FolderStore
from swarm.store.health import Health
from swarm.store.shared_place import Place
from swarm.wire import keys

LOCK = ".lock"


def _unwritable(place: Path) -> str:
    """Returns why nothing can be made in what is there; empty if something can. Raises OSError."""
    if not place.is_dir():
        return f"{place} is no folder"
    if (kind := filesystem_of(place).kind) in OF_THE_KERNEL:
        return f"{place} is the system's own ({kind}), where nobody can make a folder"
    if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"the file system of {place} is read-only"
    if not os.access(place, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return f"this user may not write in {place}"
    room = room_at(place)
    if room.inodes == 0:
        return f"the disk of {place} has room for no more files"
    return f"the disk of {place} is full" if room.total and not room.free else ""


def _mode(path: Path, *, follow: bool = True) -> int:
    """Returns the mode of what stands at a path, as stat(2) gives it; 0 where nothing does. Raises StoreError: nobody
    can tell."""
    try:
        return path.stat(follow_symlinks=follow).st_mode
    except OSError as error:
        if error.errno in NOT_THERE:
            return 0
        raise StoreError(f"cannot look at {path}: {error.strerror or error}; {remedy(error)}") from None


def _is_folder(path: Path) -> bool:
    """Raises StoreError: nobody can tell."""
    return stat.S_ISDIR(_mode(path))


def _is_known_as_folder(path: Path) -> bool:
    with suppress(StoreError):  # one of many, such as a link to what is closed
        return _is_folder(path)
    return False


class FolderPlace(Place):
    def __init__(self, path: Path) -> None:
        self._path = path

    def describe(self) -> str:
        return str(self._path)

    def problem(self) -> str:
        for place in (self._path, *self._path.parents):
            try:
                place.stat()
            except (FileNotFoundError, NotADirectoryError, PermissionError):  # one further up says why
                if os.path.islink(place):
                    return f"{place} is a link that leads to nothing"
            except OSError as error:
                return f"{place}: {error.strerror or error}"
            else:
                return _unwritable(place)
        return f"{self._path} is below no folder"

    def experiments(self) -> list[str]:
        folder = self._path / EXPERIMENTS
        there = FolderStore(folder, below=1).list("", limit=MOST_NAMES).entries
        return [entry.name for entry in there if _is_known_as_folder(folder / entry.name)]

    def has(self, name: str) -> bool:
        return _is_folder(self._path / EXPERIMENTS / name)

    def is_link(self, name: str) -> bool:
        return stat.S_ISLNK(_mode(self._path / EXPERIMENTS / name, follow=False))

    def refuse_link(self, name: str) -> None:
        self._refuse_link(f"{EXPERIMENTS}/{name}")

    def _refuse_link(self, folder: str) -> None:
        """Links to the place are its user's own; what lies in it, others may have put there."""
        names = folder.split("/")
        steps = [self._path.joinpath(*names[: depth + 1]) for depth in range(len(names))]
        if at := next((step for step in steps if step.name == ".." or stat.S_ISLNK(_mode(step, follow=False))), None):
            raise StoreError(
                f"{at} leads to {at.resolve()}, out of the shared folder. swarm follows no such link: name the "
                "folder that it leads to (--path), or remove the link"
            )

    def remove(self, name: str) -> None:
        folders = (keys.archive(name), f"{EXPERIMENTS}/{name}")
        for folder in folders:
            self._refuse_link(folder)
        try:
            for folder in folders:
                remove_tree(self._within(folder))
        except OSError as error:
            said = error.strerror or error
            raise StoreError(f"cannot delete all of {self.describe()}: {said} ({error.filename})") from None

    def _within(self, folder: str) -> Within:
        return Within(self._path, tuple(folder.split("/")))

    def beside(self, folder: str, writer: str | None = None) -> FolderStore:
        return FolderStore(self._path / folder, writer, below=len(Path(folder).parts))

    @contextmanager
    def alone(self, folder: str, writer: str) -> Iterator[None]:
        import fcntl  # here, for Windows has none, and views look at places there

        with closing(self.beside(folder, writer).open_log(LOCK)) as lock:
            try:
                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"{self._path / folder} is being run by another process: wait for it, or stop it"
                ) from None
            yield

    def move(self, name: str, folder: str) -> None:
        target = self._within(folder)
        try:
            make_folder(target.parent)
            rename_beneath(self._within(f"{EXPERIMENTS}/{name}"), target)
        except OSError as error:
            raise StoreError(f"cannot move {name} to {target}: {error.strerror or error}") from None

    def health(self, name: str) -> AbstractContextManager[Health]:
        from swarm.store.folder.health import folder_health  # here, for commands that only look start without it

        return folder_health(self._path, f"{EXPERIMENTS}/{name}")
