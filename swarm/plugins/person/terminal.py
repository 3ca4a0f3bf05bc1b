"""The terminal that a person sits at: whole lines in, bounded and without what no text has; lines out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TextIO

import anyio

MOST_AT_ONCE = 4096
"""Bytes of one reading; the kernel's lines are no longer."""
LONGEST_LINE = 64 * 1024
"""Bytes without a newline that are kept."""


class Terminal:
    """Reads from a file descriptor, beside an event loop, and writes to a stream."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self._descriptor = descriptor
        self._out = out
        self._begun = b""

    def show(self, text: str) -> None:
        """Write lines; a terminal that has gone is no error, for reading ends then."""
        with suppress(OSError, ValueError):
            self._out.write(f"{text}\n")
            self._out.flush()

    def forget(self) -> None:
        """Drop what was typed and not read: it was meant for what is over."""
        import termios

        self._begun = b""
        with suppress(termios.error):
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def lines(self) -> AsyncIterator[str]:
        """Yields what is typed, line by line, until its end (Ctrl-D, or the terminal is gone)."""
        while data := await self._read():
            *whole, self._begun = (self._begun + data).split(b"\n")
            self._begun = self._begun[:LONGEST_LINE]
            for line in whole:
                yield _text(line)

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
            return os.read(self._descriptor, MOST_AT_ONCE)
        except OSError:
            return b""


def _text(line: bytes) -> str:
    """Returns a line without control characters, such as those of arrow keys."""
    return "".join(c for c in line.decode(errors="replace") if c.isprintable() or c == "\t")
