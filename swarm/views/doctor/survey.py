"""One walk over everything that lies in an experiment's folder. Nothing is opened, no link is followed."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from pathlib import Path

import msgspec

from swarm.wire.layout import Layout

MOST_ENTRIES = 500_000
"""A few seconds on a local disk; a folder with more is surveyed in part, and that is said."""
DEEPEST = 12
SPARSE_FROM = 64 * 2**20
"""Bytes that a file claims to have, from which it is looked at whether it has them."""
SPARSE_SHARE = 8
_CONFLICT = re.compile(
    r"\.sync-conflict-|conflicted copy|\.syncthing\.|\.dropbox|\(\d+\)\.json$|-conflict-\d|_conflict-\d|\.orig$",
    re.IGNORECASE,
)
"""Syncthing, Dropbox, Google Drive (`name (1).json`), Resilio, Nextcloud."""


class Survey(msgspec.Struct):
    """What lies there. Paths are as they would be printed, relative to the experiment's folder."""

    bytes_by_part: Counter[str]
    """Part (rollouts, checkpoints, logs, ...) -> bytes that its files take up on disk."""
    files_by_part: Counter[str]
    temporary_by_node: Counter[str]
    """Node -> bytes under .tmp."""
    links: list[str]
    no_files: list[str]
    """FIFOs, sockets, devices."""
    sparse: list[str]
    """Files that claim far more bytes than they have."""
    conflicts: list[str]
    """Copies that replication tools made."""
    not_text: list[str]
    """Names that are not UTF-8."""
    unreadable: list[str]
    counts_blocks: bool = False
    """The file system says how much of a file is there; some network file systems do not."""
    complete: bool = True


def survey(layout: Layout, ignore: Path | None = None) -> Survey:
    """Walk over it all, but for one folder that is our own."""
    found = Survey(Counter(), Counter(), Counter(), [], [], [], [], [], [])
    waiting, entries = [layout.root], 0
    while waiting:
        folder = waiting.pop()
        for entry in _entries(folder, layout, found):
            entries += 1
            if entries > MOST_ENTRIES:
                found.complete = False
                return found
            place = Path(entry.path)
            if place != ignore and _note(entry, place.relative_to(layout.root), found):
                waiting.append(place)
    if not found.counts_blocks:
        found.sparse.clear()
    return found


def _entries(folder: Path, layout: Layout, found: Survey) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:  # removed while we looked: nodes clean up after themselves
        return []
    except OSError:
        found.unreadable.append(str(folder.relative_to(layout.root)))
        return []


def _note(entry: os.DirEntry[str], place: Path, found: Survey) -> bool:
    """Take note of one entry; True for a folder to go into."""
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
        return len(place.parts) < DEEPEST
    if stat.S_ISLNK(status.st_mode):
        found.links.append(shown)
    elif not stat.S_ISREG(status.st_mode):
        found.no_files.append(shown)
    else:
        _measure(status, place, shown, found)
    return False


def _measure(status: os.stat_result, place: Path, shown: str, found: Survey) -> None:
    found.counts_blocks |= status.st_blocks > 0
    counted = status.st_blocks > 0 or status.st_size >= SPARSE_FROM  # some file systems keep small files elsewhere
    taken = status.st_blocks * 512 if counted else status.st_size
    part = place.parts[0] if len(place.parts) > 1 else "experiment"
    found.bytes_by_part[part] += taken
    found.files_by_part[part] += 1
    if part == ".tmp":
        found.temporary_by_node[place.parts[1]] += taken
    if status.st_size >= SPARSE_FROM and taken * SPARSE_SHARE < status.st_size:
        found.sparse.append(f"{shown} ({status.st_size / 1e9:.1f} GB, of which {taken / 1e6:.1f} MB are there)")
