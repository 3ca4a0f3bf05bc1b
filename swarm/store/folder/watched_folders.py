"""Which folders are worth a watch: those given, and the newest of what lies one and two below them.

    rollouts/                 given
      round_9/ round_8/ ...   the newest, by the kernel's own time of change
        stage_0/ ...          the same

A recursive watch would follow a stranger's link into a big tree, take a watch for every folder of weeks, and miss the
files of folders that are just being made. So each folder is watched by itself, links and odd names are left out, and
whoever fills the folder with folders gets no more than these watches.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from swarm.store.folder.beneath import Place, Within, make_folder, opened_folder

NEWEST = 16
"""Folders in a folder. Work goes on in one or two rounds at a time; the older ones are found by listing."""


def watched_folders(roots: Sequence[Place], make: Callable[[Place], object] = make_folder) -> frozenset[Path]:
    """The folders to watch now; roots that are missing are made. Blocking.

    Raises:
        OSError: a root cannot be made, read, or is a link within an experiment.
    """
    found: set[Place] = set(roots)
    for root in roots:
        make(root)
        for folder in _newest_in(root):
            found.add(folder)
            with contextlib.suppress(OSError):  # removed or replaced in between: not a folder to watch, then
                found.update(_newest_in(folder))
    return frozenset(place.path if isinstance(place, Within) else place for place in found)


def _newest_in(folder: Place) -> Iterator[Place]:
    changed_at: dict[str, int] = {}
    with opened_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False) and entry.name.isprintable():
                    changed_at[entry.name] = entry.stat(follow_symlinks=False).st_ctime_ns
    return (folder / name for name in sorted(changed_at, key=changed_at.__getitem__)[-NEWEST:])


def may_be_new_folder(path: str) -> bool:
    """True for a folder, links not followed; what is named as a file is not looked at. Blocking."""
    try:
        return not path.endswith(".json") and stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def times_of_change(folders: Iterable[Path]) -> dict[Path, int]:
    """When each folder last got or lost a name, in its file system's nanoseconds; without those that are gone."""
    found = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            found[folder] = os.lstat(folder).st_mtime_ns
    return found
