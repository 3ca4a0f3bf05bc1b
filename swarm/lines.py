"""Append-only line files: LineFile, durable on request; BufferedLog, which keeps lines while its file refuses them.

LineFile ─▶ a file that grows by whole lines
BufferedLog ─▶ a log: what its file does not take now is kept, in order and within bounds, and written later
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from swarm.errors import StoreError

MOST_WAITING = 4 * 2**20
"""Bytes of log lines that wait for a file; the oldest beyond it are dropped and counted."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_BLOCK = 64 * 1024
MOST_TORN = 4 * 2**20
"""Bytes; what stands longer than this without a newline was not written by us, and may be a hole of a terabyte."""


class LogFile(Protocol):
    """A file of log lines, kept open; errors are OSError or StoreError."""

    def write(self, line: bytes) -> None:
        """Append a line, all of it or nothing."""

    def has_lines(self) -> bool:
        """Whether there is anything in it."""

    def reopen(self) -> None:
        """Open it again: a mount that came back does not know the old descriptor."""

    def fileno(self) -> int | None:
        """A descriptor for the traceback of a fatal signal, the same after `reopen`; None: there is none."""

    def close(self) -> None:
        """Nothing more is written."""


class LineFile:
    """A file that grows by whole lines, each in one write to an O_APPEND descriptor, so that readers see no torn one.

    A torn last line, left by a crash, is closed by a newline before the next line goes in.
    """

    def __init__(self, opener: Callable[[], int]) -> None:
        """Open the file; raises what `opener` raises, which gives a descriptor to read and to append by."""
        self._open = opener
        self._fd = opener()
        self._torn = self._ends_torn()

    def _ends_torn(self) -> bool:
        size = self._size()
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def _size(self) -> int:
        return os.fstat(self._fd).st_size

    def write(self, line: bytes, *, fsync: bool = False) -> None:
        """Append line and a newline, all of it or nothing. Raises OSError, as a full disk does."""
        size = self._size()
        if self._is_gone():
            self.reopen()
            self._torn, size = self._ends_torn(), self._size()
        try:
            self._append((b"\n" if self._torn else b"") + line + b"\n")
            if fsync:
                os.fsync(self._fd)
        except OSError:
            self._take_back(size)
            raise
        self._torn = False

    def _append(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        if written < len(data):
            raise OSError(errno.ENOSPC, f"wrote only {written} of {len(data)} bytes; is the disk full?")

    def _take_back(self, size: int) -> None:
        """What was not acknowledged goes, so that it can be written again; no reader has taken half a line."""
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            with suppress(OSError):
                self._torn = self._ends_torn()

    def cut_torn_line(self) -> None:
        """Remove half a line at the end, unless it is too long for one. Only for a file that nobody else writes.

        Raises:
            OSError: it cannot be cut.
        """
        if self._torn and (whole := self._whole()) is not None:
            os.ftruncate(self._fd, whole)
            self._torn = False

    def _whole(self) -> int | None:
        """Bytes up to and with the last newline; None: there is none near the end, so this is no torn line."""
        end = self._size()
        give_up = end - MOST_TORN
        while end > 0:
            if end <= give_up:
                return None
            start = max(0, end - _BLOCK)
            if (found := os.pread(self._fd, end - start, start).rfind(b"\n")) >= 0:
                return start + found + 1
            end = start
        return 0

    def _is_gone(self) -> bool:
        """Whether it has no name any more: somebody removed it, or put something else in its place."""
        return os.fstat(self._fd).st_nlink == 0

    def has_lines(self) -> bool:
        return self._size() > 0

    def ends_with(self, line: bytes) -> bool:
        """Whether this is its last line already. Raises OSError."""
        start = self._size() - len(line) - 1
        if start < 0 or os.pread(self._fd, len(line) + 1, start) != line + b"\n":
            return False
        return start == 0 or os.pread(self._fd, 1, start - 1) == b"\n"

    def reopen(self) -> None:
        """Open the file again, under the same descriptor number: a mount that came back does not know the old one.

        Raises:
            OSError: it cannot be opened; the old descriptor stays.
        """
        fresh = self._open()
        try:
            os.dup2(fresh, self._fd, inheritable=False)
        finally:
            os.close(fresh)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)


class BufferedLog:
    """The lines of a log on their way to a file that may refuse them for a while. Never raises once it is open.

    Raises:
        StoreError: the file cannot be opened.
    """

    def __init__(
        self,
        opener: Callable[[], LogFile],
        note: Callable[[int], bytes],
        *,
        held: bool = False,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Open the file.

        Args:
            opener: opens it; raises StoreError.
            note: the line that says how many were dropped.
            held: nothing is written before `begin`.
            most_waiting: bytes.
        """
        self._file = opener()
        self._note = note
        self._held = held
        self._most_waiting = most_waiting
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._lock = threading.RLock()

    def write(self, line: bytes) -> None:
        """Append the line, after those that wait; where that fails, it waits as well."""
        with self._lock:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            while self._waiting_bytes > self._most_waiting:
                self._waiting_bytes -= len(self._waiting.popleft())
                self._dropped += 1
            self._write_waiting()

    def begin(self) -> None:
        """Write from now on, what waits first."""
        with self._lock:
            self._held = False
            self._write_waiting()

    def forget(self) -> None:
        """A file that was held back, never begun, is another's or nobody's: drop what waits, and all that follows."""
        with self._lock:
            if self._held:
                self._most_waiting = 0
                self._waiting.clear()
                self._waiting_bytes = 0

    def _write_waiting(self) -> None:
        if self._held:
            return
        try:
            if self._dropped:
                self._file.write(self._note(self._dropped))
                self._dropped = 0
            while self._waiting:
                self._file.write(self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
        except (OSError, StoreError) as error:
            if not isinstance(error, OSError) or error.errno not in _FULL:
                with suppress(OSError, StoreError):
                    self._file.reopen()

    def fileno(self) -> int | None:
        return self._file.fileno()

    def __enter__(self) -> BufferedLog:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._most_waiting:
                self.begin()
            self._file.close()
