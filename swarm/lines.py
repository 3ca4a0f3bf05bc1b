"""Append-only line files: LineFile, durable on request; BufferedLog, which keeps lines while its file refuses them.

LineFile ─▶ a file that grows by whole lines
BufferedLog ─▶ a log: a thread of its own brings lines to the file, in order, as often as the file wants to be written
"""

from __future__ import annotations

import errno
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Protocol

from swarm.errors import StoreError

MOST_WAITING = 4 * 2**20
"""Bytes of log lines that wait for a file; the oldest beyond it are dropped and counted."""
MOST_TOGETHER = 64 * 1024
"""Bytes of gathered lines that do not wait for others."""
PATIENCE_AT_END = 30.0
"""Seconds that a process which ends waits for a file that does not answer."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_BLOCK = 64 * 1024
MOST_TORN = 4 * 2**20
"""Bytes; what stands longer than this without a newline was not written by us, and may be a hole of a terabyte."""


class LogFile(Protocol):
    """A file of log lines, kept open; errors are OSError or StoreError."""

    waits: float
    """Seconds that lines are to be gathered before they are written together; 0: each is written at once."""

    def write(self, line: bytes) -> None:
        """Append a line, or several that are joined by newlines, all or nothing."""

    def reopen(self) -> None:
        """Open it again: a mount that came back does not know the old descriptor."""

    def fileno(self) -> int | None:
        """Returns a descriptor for the traceback of a fatal signal, the same after `reopen`; None: there is none."""

    def close(self) -> None:
        """Closes the file: nothing more is written."""


class LineFile:
    """A file that grows by whole lines, each in one write to an O_APPEND descriptor, so that readers see no torn one.

    A torn last line, left by a crash, is closed by a newline before the next line goes in.
    """

    waits = 0.0

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
        """Takes back what was not acknowledged, so that it can be written again; no reader has taken half a line."""
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
        """Tells whether it has no name any more: somebody removed it, or put something else in its place."""
        return os.fstat(self._fd).st_nlink == 0

    def has_lines(self) -> bool:
        return self._size() > 0

    def ends_with(self, line: bytes) -> bool:
        """Tells whether this is its last line already. Raises OSError."""
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
    """The lines of a log on their way to a file that may be slow, hang, or refuse them for a while.

        write ─▶ waiting lines ─ a thread of its own, in order, one at a time or what was gathered ─▶ file

    `write` never waits for the file, and nothing here raises once the file is open. Lines wait in memory; of more than
    `most_waiting` bytes the oldest go, and are counted in the log. A kill -9 takes the lines that wait.

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
        patience: float = PATIENCE_AT_END,
    ) -> None:
        """Open the file.

        Args:
            opener: opens it; raises StoreError.
            note: the line that says how many were dropped.
            held: nothing is written before `begin`.
            most_waiting: bytes.
            patience: seconds that the end waits for the file.
        """
        self._file = opener()
        self._note = note
        self._held = held
        self._most_waiting = most_waiting
        self._patience = patience
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._in_hand = 0
        """So many of the first ones are being written, or were so when the file refused them."""
        self._dropped = 0
        self._due = math.inf
        """When the file is to be tried; infinite: there is no reason to try."""
        self._trying_since: float | None = None
        """When the write that goes on now began."""
        self._closing = False
        self._changed = threading.Condition()  # its lock may be taken again: a line may be said while another one is
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        """Have the line appended, after those that wait; where that fails, it waits for the next try."""
        with self._changed:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            while self._waiting_bytes > self._most_waiting and self._waiting:
                self._take_first()
                self._dropped += 1
            self._ask(0.0 if self._waiting_bytes >= MOST_TOGETHER else self._file.waits)

    def begin(self) -> None:
        """Write from now on, what waits first."""
        with self._changed:
            self._held = False
            self._ask(0.0)

    def forget(self) -> None:
        """A file that was held back, never begun, is another's or nobody's: drop what waits, and all that follows."""
        with self._changed:
            if self._held:
                self._most_waiting = 0
                self._waiting.clear()
                self._waiting_bytes = 0

    def flush(self, patience: float) -> bool:
        """Wait until everything was tried; False where the file has not answered for so many seconds."""
        until = time.monotonic() + patience
        with self._changed:
            if self._due < math.inf:
                self._ask(0.0)
            while self._due <= time.monotonic() and self._thread and self._thread.is_alive():
                left = min(until, (self._trying_since or until) + patience) - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _take_first(self) -> None:
        self._waiting_bytes -= len(self._waiting.popleft())
        self._in_hand = max(0, self._in_hand - 1)

    def _ask(self, seconds: float) -> None:
        """Have the file tried in so many seconds at the latest."""
        if self._held:
            return
        self._due = min(self._due, time.monotonic() + seconds)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_on, name="log", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    # ── in the thread ───────────────────────────────────────────────────────────────────────────────────────────────
    def _write_on(self) -> None:
        while self._is_to_try():
            with self._changed:
                at_end, dropped = self._closing, self._dropped
                lines = [self._note(dropped)] if dropped else self._taken_in_hand()
                self._trying_since = time.monotonic()
            written = self._try(b"\n".join(lines))
            with self._changed:
                self._trying_since = None
                if written and dropped:
                    self._dropped -= dropped
                elif written:
                    self._dropped -= len(lines) - self._in_hand  # given up meanwhile, and written after all
                    while self._in_hand:
                        self._take_first()
                self._due = time.monotonic() + self._pause(written=written, at_end=at_end)
        with suppress(OSError, StoreError):
            self._file.close()

    def _taken_in_hand(self) -> list[bytes]:
        """Returns the lines to be written; after a failure the same ones, for they may have got there."""
        self._in_hand = self._in_hand or (len(self._waiting) if self._file.waits else 1)
        return list(islice(self._waiting, self._in_hand))

    def _pause(self, *, written: bool, at_end: bool) -> float:
        """Returns seconds until the file is tried again, if lines are left; infinite: not before the next line."""
        if self._closing:
            return math.inf if at_end and not written else 0.0  # the end tries once more
        return self._file.waits or (0.0 if written else math.inf)

    def _is_to_try(self) -> bool:
        """Waits until there is something to write; False at the end."""
        with self._changed:
            while self._due > time.monotonic() or not (self._waiting or self._dropped):
                if not (self._waiting or self._dropped):
                    self._due = math.inf
                self._changed.notify_all()
                if self._closing and self._due == math.inf:
                    return False
                self._changed.wait(None if self._due == math.inf else max(0.0, self._due - time.monotonic()))
            return True

    def _try(self, line: bytes) -> bool:
        try:
            self._file.write(line)
        except (OSError, StoreError) as error:
            if not isinstance(error, OSError) or error.errno not in _FULL:
                with suppress(OSError, StoreError):
                    self._file.reopen()
            return False
        return True

    # ── open and closed ─────────────────────────────────────────────────────────────────────────────────────────────
    def fileno(self) -> int | None:
        return self._file.fileno()

    def __enter__(self) -> BufferedLog:
        return self

    def __exit__(self, *_: object) -> None:
        """Try once more what waits, and close the file; what it does not take is counted on the terminal."""
        with self._changed:
            self._closing = True
            if self._most_waiting:
                self.begin()
        if self._thread is None:
            self._file.close()
            return
        answers = self.flush(self._patience)
        with self._changed:
            lost = len(self._waiting) + self._dropped
        if lost and (terminal := sys.__stderr__) is not None:
            why = "its folder refuses them" if answers else f"its folder has not answered for {self._patience:g} s"
            with suppress(OSError, ValueError):
                terminal.write(f"{lost} lines of a log could not be written: {why}\n")
        if answers:
            self._thread.join(self._patience)
