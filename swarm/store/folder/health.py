"""Measures a folder's health: it is tried out in a folder of its own.

writing, room, clock, and one walk over everything that lies in an experiment: nothing is opened, no link is
followed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from swarm.errors import StoreError
from swarm.store.base import Room
from swarm.store.folder.filesystem import filesystem_of, room_at
from swarm.store.folder.store import FolderStore
from swarm.store.health import MOST_ENTRIES, FileSystem, FolderHealth, Survey, Writing
from swarm.wire import keys

PREFIX = "doctor-"
WRITTEN = (keys.STATE.partition("/")[0], keys.PEERS, keys.ROLLOUTS, keys.REWARDS, keys.LOGS)
"""Where nodes write in an experiment."""


@contextmanager
def folder_health(path: Path, experiment: str) -> Iterator[FolderProbe]:
    """The health of a shared folder, and of an experiment in it, for the block.

    What is tried out lies in the experiment's `.tmp`, which nobody watches or counts; where that is not there (or is a
    link that leads elsewhere), in the shared folder; and where there is none yet, in the nearest one above, where it
    would be made.
    """
    own = path / experiment / keys.DRAFTS
    parent = own if os.path.isdir(own) and not os.path.islink(own) else nearest_existing(path)
    probe = parent / f"{'' if parent == own else '.swarm-'}{PREFIX}{uuid.uuid4().hex}"
    try:
        try:
            probe.mkdir()
        except OSError as error:
            yield FolderProbe(path, experiment, probe, f"cannot write in {parent}: {error.strerror or error}")
            return
        yield FolderProbe(path, experiment, probe)
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def nearest_existing(path: Path) -> Path:
    """Returns the folder itself, or the nearest one above it that is there."""
    return next((place for place in (path, *path.parents) if os.path.exists(place)), path)


class FolderProbe(FolderHealth):
    """Measures a folder, beside a probe folder for what is tried out."""

    def __init__(self, path: Path, experiment: str, probe: Path, problem: str = "") -> None:
        """`probe`: an empty folder on the file system in question, unless there is a problem."""
        self.probe = probe
        self.problem = problem
        self._path = path
        self._root = path / experiment
        self.there = os.path.isdir(self._root)
        self.trial = FolderStore(probe, "doctor")

    def writing(self) -> Writing:
        """Write as nodes do, and take the time."""
        there, parent = os.path.isdir(self._path), str(nearest_existing(self._path))
        problem = f"{self._path} is no folder" if os.path.exists(self._path) and not there else self.problem
        if problem := problem or self._closed():
            return Writing(there, parent, problem, ())
        try:
            return Writing(there, parent, "", self.latency().put)
        except StoreError as error:
            return Writing(there, parent, str(error), ())

    def _closed(self) -> str:
        """Folders of the experiment that this user may not write in; the probe lies in only one of them."""
        places = [self._root, *(self._root / name for name in WRITTEN)]
        closed = [str(place) for place in places if os.path.lexists(place) and not _may_write_in(place)]
        return f"no folders, or no permission to write in them: {', '.join(closed)}" if closed else ""

    def room(self) -> Room:
        return room_at(nearest_existing(self._path))

    def written_now(self) -> float:
        file = self.probe / "time.tmp"
        file.write_bytes(b"now")
        return file.stat().st_mtime

    def written_at(self, key: str) -> float:
        try:
            return (self._root / key).lstat().st_mtime
        except OSError:
            return 0.0

    def file_system(self) -> FileSystem:
        return filesystem_of(self._path)

    def survey(self) -> Survey:
        return survey(self._root, ignore=self.probe)


def _may_write_in(place: Path) -> bool:
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)


# ── survey ───────────────────────────────────────────────────────────────────────────────────────────────────────────
DEEPEST_LOOKED_AT = 12
LARGE = 64 * 2**20
"""Bytes from which a file without blocks is a hole; some file systems keep smaller ones elsewhere."""
_CONFLICT = re.compile(
    r"\.sync-conflict-|conflicted copy|\.syncthing\.|\.dropbox|\(\d+\)\.json$|-conflict-\d|_conflict-\d|\.orig$",
    re.IGNORECASE,
)
"""Syncthing, Dropbox, Google Drive (`name (1).json`), Resilio, Nextcloud."""


def survey(root: Path, ignore: Path | None = None) -> Survey:
    """Walk over it all, but for one folder that is our own."""
    found, waiting, entries = Survey(), [root], 0
    within, left_out = os.path.join(root, ""), os.fspath(ignore or "")
    while waiting:
        folder = waiting.pop()
        for entry in _entries(folder, root, found):
            entries += 1
            if entries > MOST_ENTRIES:
                found.complete = False
                return found
            if entry.path != left_out and _note(entry, entry.path.removeprefix(within), found):
                waiting.append(Path(entry.path))
    return found


def _entries(folder: Path, root: Path, found: Survey) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, MOST_ENTRIES + 1))
    except FileNotFoundError:  # removed while we looked: nodes clean up after themselves
        return []
    except OSError:
        found.unreadable.append(str(folder.relative_to(root)))
        return []


def _note(entry: os.DirEntry[str], place: str, found: Survey) -> bool:
    """Take note of one entry; True for a folder to go into.

    Args:
        place: its path from the experiment's folder on.
    """
    shown = os.fsencode(place).decode("utf-8", "backslashreplace")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # gone again
        return False
    if shown.encode() != os.fsencode(place):
        found.not_text.append(shown)
    if _CONFLICT.search(entry.name):
        found.conflicts.append(shown)
    if stat.S_ISDIR(status.st_mode):
        return place.count(os.sep) + 1 < DEEPEST_LOOKED_AT
    if stat.S_ISREG(status.st_mode):
        _measure(status, place, found)
    return False


def _measure(status: os.stat_result, place: str, found: Survey) -> None:
    blocks = getattr(status, "st_blocks", 0)  # Windows tells of none
    taken = blocks * 512 if blocks or status.st_size >= LARGE else status.st_size
    part, _, below = place.partition(os.sep)
    part = part if below else "experiment"
    found.bytes_by_part[part] += taken
    found.files_by_part[part] += 1
    if part == keys.DRAFTS:
        found.drafts_by_node[below.split(os.sep)[0]] += taken
