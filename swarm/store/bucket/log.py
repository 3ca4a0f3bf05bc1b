"""A log in a bucket: its lines are gathered, so that many of them are one segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.errors import StoreError

if TYPE_CHECKING:  # whoever predicts requests has no library for buckets
    from swarm.store.bucket.growing import GrowingWriter

SEALED_AFTER = 10.0
"""Seconds that the first lines wait."""
SEALED_LATEST = 300.0
"""And later ones at most: each further segment waits GROWTH times as long as the one before."""
GROWTH = 3
SEALED_SELDOM = 900.0
"""Seconds of a log that says what another one says."""


class SealedLog:
    """A LogFile: what is written at once is a segment. Lines that wait for it are lost with the process."""

    def __init__(self, file: GrowingWriter, *, waits: float = SEALED_AFTER) -> None:
        """Raises StoreError: the bucket cannot be read."""
        self.waits = waits
        self._file = file
        file.look()
        self._failed = False
        """The last segment may be there or not: the same lines are not appended twice."""

    def write(self, line: bytes) -> None:
        try:
            self._file.append(line + b"\n", once=self._failed)
        except StoreError:
            self._failed = True
            raise
        self._failed = False
        self.waits = min(GROWTH * self.waits, max(SEALED_LATEST, self.waits))

    def reopen(self) -> None:
        pass

    def fileno(self) -> None:
        return None

    def close(self) -> None:
        pass
