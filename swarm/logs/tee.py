"""Copies what is printed to a node's stdout.log, beside the terminal."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import ExitStack, suppress
from typing import Any, TextIO

from swarm.lines import BufferedLog
from swarm.logs.formatting import as_bytes
from swarm.logs.nodes import concerns

_LONGEST_UNFINISHED_LINE = 64 * 1024
"""Characters without a newline that the tee holds back before it writes them all the same."""


def tee_prints(undo: ExitStack, lines: BufferedLog, node_id: str) -> None:
    """Several nodes' tees stand one behind the other; each lets everything through to the terminal."""
    for name in ("stdout", "stderr"):
        original: TextIO = getattr(sys, name)
        tee = Tee(original, lines, node_id)
        undo.callback(setattr, sys, name, original)
        undo.callback(tee.finish)
        setattr(sys, name, tee)


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
            if len(self._pending) > _LONGEST_UNFINISHED_LINE:
                lines, self._pending = [*lines, self._pending], ""
            for line in lines:
                self._append(line)

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
