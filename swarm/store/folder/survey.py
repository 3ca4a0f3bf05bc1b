"""One walk over everything that lies in an experiment's folder. Nothing is opened, no link is followed."""

from __future__ import annotations

import os
import re
import stat
from itertools import islice
from pathlib import Path

from swarm.store.health import MOST_ENTRIES, Sparse, Survey
from swarm.wire import keys

DEEPEST = 12
SPARSE_FROM = 64 * 2**20
"""Bytes that a file claims to have, from which it is looked at whether it has them."""
SPARSE_SHARE = 8
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
    if not found.counts_blocks:
        found.sparse.clear()
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
        return place.count(os.sep) + 1 < DEEPEST
    if stat.S_ISLNK(status.st_mode):
        found.links.append(shown)
    elif not stat.S_ISREG(status.st_mode):
        found.no_files.append(shown)
    else:
        _measure(status, place, shown, found)
    return False


def _measure(status: os.stat_result, place: str, shown: str, found: Survey) -> None:
    blocks = getattr(status, "st_blocks", 0)  # Windows tells of none
    found.counts_blocks |= blocks > 0
    counted = blocks > 0 or status.st_size >= SPARSE_FROM  # some file systems keep small files elsewhere
    taken = blocks * 512 if counted else status.st_size
    part, _, below = place.partition(os.sep)
    part = part if below else "experiment"
    found.bytes_by_part[part] += taken
    found.files_by_part[part] += 1
    if part == keys.DRAFTS:
        found.drafts_by_node[below.split(os.sep)[0]] += taken
    if status.st_size >= SPARSE_FROM and taken * SPARSE_SHARE < status.st_size:
        found.sparse.append(Sparse(shown, status.st_size, taken))
