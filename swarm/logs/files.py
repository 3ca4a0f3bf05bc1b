"""The files of each node: its events as JSON lines, and its stdout.log, which also gets what is printed.

They wait until it is known that the node's name is its own: a second process of that name, which is refused, must not
write into the log of the first (`begin_files`). They also wait while the folder refuses them, as a full disk does, and
lose nothing but the oldest lines, counted, if that takes long; see swarm.lines.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO

from swarm.lines import BufferedLog, LogFile
from swarm.logs.formatting import as_bytes, concerns

_LONGEST_UNFINISHED_LINE = 64 * 1024
"""Characters without a newline that the tee holds back before it writes them all the same."""


@contextmanager
def handling(handler: logging.Handler, level: int) -> Iterator[None]:
    """The handler gets the root logger's records from this level up."""
    handler.setLevel(level)
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


def put_in_place(undo: ExitStack, owner: object, name: str, value: object) -> None:
    """Sets an attribute, until `undo` gives back what it was."""
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def begin_files(node_id: str) -> None:
    """The node's name is its own: what was said so far goes to its files, and all that follows."""
    for lines in files_of(node_id):
        lines.begin()


def flush_files(patience: float) -> None:
    """Waits, before a process ends at once, until the files have what was said, or for so many seconds."""
    for lines in files_of(None):
        lines.flush(patience)


def files_of(node_id: str | None) -> list[BufferedLog]:
    """Returns the log files of one node; None: of all."""
    handlers = [h for h in logging.root.handlers if isinstance(h, FileHandler)]
    return [handler.lines for handler in handlers if node_id in (None, handler.node_id)]


def keep_file(
    undo: ExitStack,
    opener: Callable[[], LogFile],
    formatter: logging.Formatter,
    node_id: str,
    level: int,
    *,
    held: bool,
) -> BufferedLog:
    """Give a node one of its files. Raises StoreError if it cannot be opened."""

    def note(dropped: int) -> bytes:
        """A record of our own, which goes to this file alone."""
        record = logging.LogRecord(__package__, logging.WARNING, __file__, 0, "log.lines_dropped", None, None)
        record.__dict__.update(count=dropped, reason="they could not be written")
        return as_bytes(formatter.format(record))

    lines = undo.enter_context(BufferedLog(opener, note, held=held))
    undo.enter_context(handling(FileHandler(lines, formatter, node_id), level))
    return lines


class FileHandler(logging.Handler):
    """Writes the records that concern one node to one of its files."""

    def __init__(self, lines: BufferedLog, formatter: logging.Formatter, node_id: str) -> None:
        super().__init__()
        self.lines = lines
        self.node_id = node_id
        self.setFormatter(formatter)
        self.addFilter(lambda _: concerns(node_id))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.lines.write(as_bytes(self.format(record)))
        except Exception:  # noqa: BLE001 - a log line must never stop a node; logging reports it on stderr
            self.handleError(record)


# ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────────────
def tee_prints(undo: ExitStack, lines: BufferedLog, node_id: str) -> None:
    """Several nodes' tees stand one behind the other; each lets everything through to the terminal."""
    for name in ("stdout", "stderr"):
        tee = Tee(getattr(sys, name), lines, node_id)
        put_in_place(undo, sys, name, tee)
        undo.callback(tee.finish)


class Tee(io.TextIOBase):
    """A stream that also appends whole lines to a file; of a line redrawn with carriage returns, its last state."""

    def __init__(self, stream: TextIO, lines: BufferedLog, node_id: str) -> None:
        self._stream = stream
        self._lines = lines
        self._node_id = node_id
        self._pending = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with suppress(OSError):  # the terminal may be gone; the file is there
            self._stream.write(text)
        if concerns(self._node_id):
            self._keep(text)
        return len(text)

    def _keep(self, text: str) -> None:
        with self._lock:
            *lines, self._pending = (self._pending + text).split("\n")
            for line in lines:
                self._append(line)
        if len(self._pending) > _LONGEST_UNFINISHED_LINE:
            self.finish()

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def finish(self) -> None:
        with self._lock:
            if self._pending:
                self._append(self._pending)
            self._pending = ""

    def _append(self, line: str) -> None:
        line = line.rstrip("\r").rpartition("\r")[2]
        self._lines.write(as_bytes(line))

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
