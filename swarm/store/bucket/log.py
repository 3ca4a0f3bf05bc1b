"""A log whose lines wait in memory, so that many of them are one segment: sealed by size, by age, and at the end."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from swarm.errors import StoreError
from swarm.lines import MOST_WAITING

if TYPE_CHECKING:  # whoever predicts requests has no library for buckets
    from swarm.store.bucket.growing import GrowingWriter

SEALED_AT = 64 * 1024
"""Bytes of lines that make a segment at once."""
SEALED_AFTER = 10.0
"""Seconds that the first lines wait at most."""
SEALED_LATEST = 300.0
"""And later ones: each further segment waits GROWTH times as long as the one before."""
GROWTH = 3
SEALED_SELDOM = 900.0
"""Seconds of a log that says what another one says."""
_PATIENCE = 30.0
"""Seconds for which closing waits for the last segment."""


class SealedLog:
    """A LogFile: writing a line costs no request; a thread of its own puts segments.

    What a bucket does not take waits, as long as MOST_WAITING bytes hold it; further lines are refused then. Lines that
    were not sealed are lost with the process.
    """

    def __init__(self, file: GrowingWriter, *, after: float = SEALED_AFTER) -> None:
        """Raises StoreError: the bucket cannot be read."""
        self._file = file
        self._after = after
        self._had_lines = file.has_lines()
        self._lines = bytearray()
        self._since = 0.0
        self._closing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        with self._changed:
            if len(self._lines) + len(line) > MOST_WAITING:
                raise StoreError(f"{len(self._lines)} bytes of log lines wait for the bucket already")
            if not self._lines:
                self._since = time.monotonic()
            self._lines += line + b"\n"
            self._had_lines = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._seal_on, name="bucket log", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _seal_on(self) -> None:
        while True:
            with self._changed:
                while not self._is_due() and not self._closing:
                    self._changed.wait(self._left() if self._lines else None)
                lines, closing = bytes(self._lines), self._closing
            if lines and self._seal(lines):
                with self._changed:
                    del self._lines[: len(lines)]
                    self._since, longest = time.monotonic(), max(SEALED_LATEST, self._after)
                    self._after = min(GROWTH * self._after, longest)
            elif lines and not closing:
                with self._changed:
                    self._since = time.monotonic()  # tried again after a while
                    self._changed.wait(self._after)
            if closing:
                return

    def _seal(self, lines: bytes) -> bool:
        with suppress(StoreError):
            self._file.append(lines, once=self._failed)
            self._failed = False
            return True
        self._failed = True
        return False

    _failed = False
    """The last segment may be there or not: the same lines are not appended twice."""

    def _is_due(self) -> bool:
        return bool(self._lines) and (len(self._lines) >= SEALED_AT or self._left() <= 0)

    def _left(self) -> float:
        return self._since + self._after - time.monotonic()

    def has_lines(self) -> bool:
        return self._had_lines

    def reopen(self) -> None:
        pass

    def fileno(self) -> None:
        return None

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
