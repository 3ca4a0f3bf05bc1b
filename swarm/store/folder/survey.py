"""One walk over everything that lies in an experiment's folder. Nothing is opened, no link is followed."""

from __future__ import annotations

import os
import re
import stat
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
    found, entries = Survey(), 0

    def cannot_list(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # removed while we looked: nodes clean up after themselves
            found.unreadable.append(os.path.relpath(error.filename, root))

    for folder, folders, files in os.walk(root, onerror=cannot_list):
        place = Path(folder).relative_to(root)
        for name in (*folders, *files):
            entries += 1
            if entries > MOST_ENTRIES:
                found.complete = False
                return found
            if Path(folder, name) != ignore:
                _note(folder, place / name, found)
        deeper = len(place.parts) + 1 < DEEPEST
        folders[:] = [name for name in folders if deeper and Path(folder, name) != ignore]
    if not found.counts_blocks:
        found.sparse.clear()
    return found


def _note(folder: str, place: Path, found: Survey) -> None:
    """Take note of one entry."""
    shown = os.fsencode(place).decode("utf-8", "backslashreplace")
    try:
        status = os.lstat(os.path.join(folder, place.name))
    except OSError:  # gone again
        return
    if shown.encode() != os.fsencode(place):
        found.not_text.append(shown)
    if _CONFLICT.search(place.name):
        found.conflicts.append(shown)
    if stat.S_ISLNK(status.st_mode):
        found.links.append(shown)
    elif stat.S_ISREG(status.st_mode):
        _measure(status, place, shown, found)
    elif not stat.S_ISDIR(status.st_mode):
        found.no_files.append(shown)


def _measure(status: os.stat_result, place: Path, shown: str, found: Survey) -> None:
    found.counts_blocks |= status.st_blocks > 0
    counted = status.st_blocks > 0 or status.st_size >= SPARSE_FROM  # some file systems keep small files elsewhere
    taken = status.st_blocks * 512 if counted else status.st_size
    part = place.parts[0] if len(place.parts) > 1 else "experiment"
    found.bytes_by_part[part] += taken
    found.files_by_part[part] += 1
    if part == keys.DRAFTS:
        found.drafts_by_node[place.parts[1]] += taken
    if status.st_size >= SPARSE_FROM and taken * SPARSE_SHARE < status.st_size:
        found.sparse.append(Sparse(shown, status.st_size, taken))
