"""Records of a growing file, read on from wherever the last reading stopped: the same for all places.

    place: bytes from `offset` on ─▶ read_on ─▶ whole records, and where the next reading goes on

           the last bytes      ─▶ read_end ┘

A reading ends with the record in which its limit lies. A record above MOST_PER_RECORD is junk and read as b""; what
comes before its newline is passed over, by this reading and those that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from swarm.store.base import MOST_PER_RECORD, Records

MOST_RECORDS = 100_000
"""Records that one reading gives, should they be tiny."""


class Cursor(NamedTuple):
    """Says where a reading stopped."""

    of: str = ""
    """What the file was then, in the words of its place; empty: nothing was read yet."""
    offset: int = 0
    in_long: bool = False
    """It stopped within a record that is too long."""

    @classmethod
    def parsed(cls, text: str) -> Cursor:
        """Returns the cursor that a text says; that of a file's beginning for any other text."""
        before, _, in_long = text.rpartition("/")
        of, _, offset = before.rpartition("/")
        return cls(of, int(offset), in_long == "1") if offset.isdecimal() else cls()

    def __str__(self) -> str:
        return f"{self.of}/{self.offset}/{int(self.in_long)}"


def read_end(
    read: Callable[[int, int], bytes], size: int, wanted: int, limit: int, what: Callable[[int], str]
) -> Records:
    """Reads the whole records that begin in the last `wanted` bytes; arguments as of `read_on`."""
    begin = size - wanted - 1
    if begin < 0:
        return read_on(read, size, Cursor(), limit, what)
    found = read_on(read, size, Cursor("", begin, in_long=True), limit, what)  # what lies before the first newline
    return found._replace(records=found.records[1:], cut=True)


def read_on(
    read: Callable[[int, int], bytes], size: int, cursor: Cursor, limit: int, what: Callable[[int], str]
) -> Records:
    """Reads records from a cursor on.

    Args:
        read: gives the bytes between two offsets; fewer where some are missing.
        size: bytes of the file.
        limit: bytes of records, about.
        what: gives `Cursor.of` where the reading stops.
    """
    _, offset, in_long = cursor
    data = read(offset, min(size, offset + limit))
    if len(data) == limit and not data.endswith(b"\n"):  # up to the end of the record in which the limit lies
        data += read(offset + limit, min(size, offset + limit + MOST_PER_RECORD + 1))
    at_end = offset + len(data) >= size
    if end := data.find(b"\n", limit - 1) + 1:
        data = data[:end]
    *lines, rest = data.split(b"\n", MOST_RECORDS)
    is_short = max(map(len, lines), default=0) <= MOST_PER_RECORD
    records = lines if is_short else [line if len(line) <= MOST_PER_RECORD else b"" for line in lines]
    if records and in_long:
        records[0], in_long = b"", False
    offset, torn = offset + len(data) - len(rest), False
    if rest and len(records) < MOST_RECORDS:
        torn = at_end
        if in_long or len(rest) > MOST_PER_RECORD or not at_end:
            offset, in_long = offset + len(rest), True
    return Records(records, str(Cursor(what(offset), offset, in_long)), torn, offset < size and not torn)
