"""Reading a growing file on from where the last reading stopped: a cursor names its birth, a segment and a byte."""

from __future__ import annotations

from typing import NamedTuple

from swarm.store.base import MOST_PER_RECORD, Records
from swarm.store.bucket.client import BucketClient, tag_of
from swarm.store.bucket.growing import Piece, pieces_of, read_pieces, segments_of
from swarm.store.bucket.names import Segment

_MOST_RECORDS = 100_000
"""Records that one reading gives, should they be tiny, and segments that it asks for."""


class _Cursor(NamedTuple):
    birth: str = ""
    """Birth of the file, or `=` and the tag of the one object that it is."""
    segment: int = 0
    """Start of the segment that holds the last byte that was read."""
    offset: int = 0
    in_long: bool = False
    """It stopped within a record that is too long."""

    @classmethod
    def of(cls, text: str) -> _Cursor:
        parts = text.rsplit(":", 3)
        if len(parts) != 4 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            return cls()
        return cls(parts[0], int(parts[1]), int(parts[2]), parts[3] == "1")

    def __str__(self) -> str:
        return f"{self.birth}:{self.segment}:{self.offset}:{int(self.in_long)}"

    @property
    def before(self) -> str:
        """Name behind which a listing shows that segment and all that follow."""
        return Segment(self.birth, self.segment - 1, 0).name if self.segment else self.birth


class _File(NamedTuple):
    """A growing file, as far as it was listed."""

    birth: str
    pieces: list[Piece]


def read_on(client: BucketClient, name: str, text: str, limit: int) -> Records:
    """Reads on from a cursor; it implements Store.read_records."""
    cursor = _Cursor.of(text)
    file = _find(client, name, cursor, limit)
    if file is None:
        return Records([], text)
    restarted = cursor.birth not in ("", file.birth)
    if restarted or not cursor.birth:
        cursor = _Cursor(file.birth)
    return _read_on(client, file.pieces, cursor, limit)._replace(restarted=restarted)


def _find(client: BucketClient, name: str, cursor: _Cursor, limit: int) -> _File | None:
    """Returns the file, from the cursor on and as far as one reading goes; None: there is none."""
    enough = cursor.offset + limit + MOST_PER_RECORD
    segments = segments_of(client, name, "" if cursor.birth.startswith("=") else cursor.before, enough)
    if cursor.offset and not (segments and segments[0].start <= cursor.offset):
        segments = segments_of(client, name, enough=enough)  # gone, or put together into larger ones
    if segments:
        return _File(segments[0].birth, pieces_of(name, segments))
    if (found := client.head(name)) is None:
        return None
    return _File(f"={tag_of(found)}", [Piece(name, 0, 0, found["size"])])


def _read_on(client: BucketClient, pieces: list[Piece], cursor: _Cursor, limit: int) -> Records:
    size = pieces[-1].end if pieces else 0
    ahead = [piece for piece in pieces if piece.end > cursor.offset]
    if ahead and ahead[0].begin > cursor.offset:  # what lay between is gone, or was not to be read
        cursor = cursor._replace(offset=ahead[0].begin, in_long=False)
    if len(ahead) > _MOST_RECORDS:
        limit = min(limit, ahead[_MOST_RECORDS - 1].end - cursor.offset)
    data = _window(client, ahead, cursor.offset, limit)
    return _records(data, cursor, limit, size, pieces)


def _window(client: BucketClient, ahead: list[Piece], start: int, limit: int) -> bytes:
    """Returns bytes from `start` on, up to the end of the record in which the limit lies, or beyond its bounds."""
    most = start + limit + MOST_PER_RECORD + 1
    last = next((piece.end for piece in ahead if piece.end >= start + limit), most)
    data = read_pieces(client, _together(ahead, start, min(last, most)))
    if last < most and len(data) == last - start and data.find(b"\n", limit - 1) < 0:
        data += read_pieces(client, _together(ahead, last, most))
    return data


def _together(ahead: list[Piece], begin: int, end: int) -> list[Piece]:
    """Returns the pieces that lie between two bytes, up to the first gap."""
    found = list[Piece]()
    for piece in ahead:
        if (cut := piece.within(begin, end)) and cut.begin == (found[-1].end if found else begin):
            found.append(cut)
    return found


def _records(data: bytes, cursor: _Cursor, limit: int, size: int, pieces: list[Piece]) -> Records:
    found, at, in_long, torn = list[bytes](), 0, cursor.in_long, False
    at_end = cursor.offset + len(data) >= size
    while at < min(limit, len(data)) and len(found) < _MOST_RECORDS:
        newline = data.find(b"\n", at)
        if newline < 0:
            torn = at_end
            if in_long or len(data) - at > MOST_PER_RECORD or not at_end:
                at, in_long = len(data), True
            break
        found.append(b"" if in_long or newline - at > MOST_PER_RECORD else data[at:newline])
        at, in_long = newline + 1, False
    offset = cursor.offset + at
    segment = max((piece.begin for piece in pieces if piece.begin < offset), default=0)
    return Records(found, str(_Cursor(cursor.birth, segment, offset, in_long)), torn, offset < size and not torn)
