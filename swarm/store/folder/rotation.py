"""Logs that must not fill a disk: a full one becomes its older part, in the place of the one before.

    training_events.jsonl    ─ MOST_OF_PART bytes ─▶ training_events.jsonl.1 ─ at the next time ─▶ gone

Rows of metrics are the record of a run, and never go. Readers know of the older part in swarm.store.folder.growing: for
them a log is one file, of which the oldest lines go.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from swarm.errors import StoreError
from swarm.lines import LineFile
from swarm.store.folder.beneath import Within, opened_folder
from swarm.store.folder.growing import older_part
from swarm.store.folder.obstacles import clear

MOST_OF_PART = 32 * 2**20
"""Bytes: some 16,000 rounds at least. A log takes twice that at most."""


class RotatedLog(LineFile):
    """A LineFile that begins anew where it is full; where that fails it grows on."""

    def __init__(self, opener: Callable[[], int], rotate: Callable[[], None], most: int) -> None:
        """Args:
        opener: as of LineFile.
        rotate: moves the file out of the way; raises OSError or StoreError.
        most: bytes.
        """
        super().__init__(opener)
        self._rotate = rotate
        self._most = most

    def write(self, line: bytes, *, fsync: bool = False) -> None:
        size = self._size()
        if size and size + len(line) >= self._most and not self._is_gone():
            with suppress(OSError, StoreError):
                self._rotate()
                self.reopen()
                self._torn = self._ends_torn()
        super().write(line, fsync=fsync)


def rotate(file: Within, drafts: Within) -> None:
    """Make a log the older part of itself. Raises OSError, StoreError."""
    older = older_part(file)
    assert older
    clear(older, drafts)
    with opened_folder(file.parent) as folder:
        os.rename(file.name, older.name, src_dir_fd=folder, dst_dir_fd=folder)
