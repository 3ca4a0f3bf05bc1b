"""Files that grow: immutable segments, each of whole lines, named by the byte of the file that they begin at.

    logs/anna/metrics.jsonl~/{birth}-000000000000000     lines, put once
                             {birth}-000000000001834     the next ones
                             {birth}-{at}-{start}        the bytes of several, the last of which began `at`; these go
    append   end known? ─no─▶ list, read the last bytes      ─▶ ends with these lines? done
             ─▶ create a segment: with the bytes of the last one before the new lines, while that is small
             ─▶ neighbours to join? put their bytes as one, delete those that were joined GRACE seconds ago
    read     list from the cursor's segment on ─▶ get what is behind the cursor ─▶ whole records

So a file is read with few requests however long it is: one segment of up to 32 KiB that grows with each append, one of
up to 512 KiB, one of up to 8 MiB, and those that are full.

A create whose answer was lost is known again (see Objects.create), and an append that failed makes the writer look
anew: so trying again doubles nothing. A file that was put at the key as one object is its own only segment, until the
first append writes its whole lines into a segment. Where segments overlap the later one counts, so that half a line at
the end goes; but those that lie within a joined one do not count, so nothing is missing when some of them are gone.
A cursor knows a file by its birth and a segment; a file of one object by `=` and that object's tag.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.lines import MOST_TORN
from swarm.store.base import MOST_PER_RECORD, PAGE, Records, bytes_of_end
from swarm.store.bucket.listing import BEHIND, MOST_GROWN, Segment, Walk, grown, newest
from swarm.store.bucket.objects import Objects, say_that_it_went, tag_of
from swarm.store.records import MOST_RECORDS, Cursor, read_end
from swarm.store.records import read_on as read_records

MOST_PER_APPEND = 64 * 2**20
"""Bytes of one segment; a larger one was not written by us, and is skipped."""
_KEPT = 128 * 1024
"""Bytes of a file's end that its writer remembers."""
_TAIL = 32 * 1024
"""Bytes up to which the last segment is put again with the lines that come."""
_SIZES = (512 * 1024, 8 * 2**20)
"""Bytes from which on a segment is of another kind: neighbours of one kind are joined."""
_MOST_JOINED = 64
"""Segments that are joined at once: logs of earlier versions have hundreds."""
_PAUSE = 16
"""Appends before another join, where one failed."""
_ATTEMPTS = 3
GRACE = 60.0
"""Seconds that segments stay after they were joined: readers who listed them before have so long to read them."""
_READINGS = 10
"""Times that a reader lists anew, where what it listed was joined and deleted meanwhile."""
_AT_ONCE = 8
"""Segments that are read at the same time."""


def segments_of(client: Objects, name: str, after: str = "", enough: int | None = None) -> list[Segment]:
    """Returns the segments of the growing file that is there now, in order; none if there is none.

    Args:
        after: from the one behind this name on.
        enough: a byte of the file; what is listed far behind it may be left out.
    """
    walk, found, of_birth = Walk(client, grown(name), f"{grown(name)}/{after}" if after else ""), list[Segment](), 0
    while (meta := walk.next()) is not None:
        if segment := Segment.of(meta["path"].removeprefix(f"{grown(name)}/"), meta["size"]):
            of_birth = of_birth + 1 if found and found[-1].birth == segment.birth else 1
            found.append(segment)
            if enough is not None and segment.start > enough and of_birth >= PAGE:
                walk.leap(f"{grown(name)}/{segment.birth}{BEHIND}")
    return newest(found, Segment.of(after, 1))


class Piece(NamedTuple):
    """Names some bytes of a growing file, and the object that they lie in."""

    name: str
    origin: int
    """Where the object begins in the file."""
    begin: int
    end: int

    def within(self, begin: int, end: int) -> Piece | None:
        """Returns the part of this piece that lies between two bytes of the file; None: nothing."""
        cut = self._replace(begin=max(begin, self.begin), end=min(end, self.end))
        return cut if cut.begin < cut.end else None


def pieces_of(name: str, segments: Sequence[Segment]) -> list[Piece]:
    """Returns the pieces of segments that count, in order; segments too large to be ours do not count."""
    found, counting = list[Piece](), counted(segments)
    for segment, following in zip(counting, [*counting[1:], None], strict=True):
        end = min(segment.end, following.start) if following and following.start > segment.start else segment.end
        if segment.start < end and segment.size <= MOST_PER_APPEND:
            found.append(Piece(f"{grown(name)}/{segment.name}", segment.start, segment.start, end))
    return found


def counted(segments: Sequence[Segment]) -> list[Segment]:
    """Returns the segments in the order of their bytes, without those that lie within a joined one."""
    found, reached = list[Segment](), 0
    for segment in sorted(segments, key=lambda one: (one.birth, one.start, -one.size)):
        if segment.end > reached:
            found.append(segment)
            if segment.joined and segment.size <= MOST_PER_APPEND:
                reached = segment.end
    return found


def read_pieces(client: Objects, pieces: Sequence[Piece], *, strict: bool = False) -> bytes:
    """Reads the bytes of pieces. One that cannot be read, is gone or became shorter is a line of zeros: junk.

    Raises:
        FileNotFoundError: one is gone, and `strict`.
    """

    def read(piece: Piece) -> bytes:
        size, data = piece.end - piece.begin, b""
        with suppress(ProtocolError) if strict else suppress(ProtocolError, FileNotFoundError):
            data = client.get_range(piece.name, piece.begin - piece.origin, piece.end - piece.origin)
        return data if len(data) == size else b"\0" * (size - 1) + b"\n"

    if len(pieces) < 2:
        return b"".join(map(read, pieces))
    with ThreadPoolExecutor(min(_AT_ONCE, len(pieces))) as threads:
        return b"".join(threads.map(read, pieces))


class _End(NamedTuple):
    """Holds what the writer knows about its file."""

    birth: str
    size: int
    tail: bytes
    """The last bytes."""
    segments: tuple[Segment, ...] = ()
    """Those that count."""
    own: int = 0
    """So many bytes of the tail are known; the others may be junk in place of what cannot be read."""

    def and_then(self, lines: bytes, segments: Sequence[Segment]) -> _End:
        """Returns the end of the file with these lines more."""
        tail = (self.tail + lines)[-_KEPT:]
        return _End(self.birth, self.size + len(lines), tail, tuple(segments), min(self.own + len(lines), len(tail)))

    def holds(self, segment: Segment) -> bool:
        """Tells whether `bytes_of` knows a segment."""
        return self.size - self.own <= segment.start and segment.end <= self.size

    def bytes_of(self, segment: Segment) -> bytes:
        """Returns a segment that the tail holds."""
        begins = self.size - len(self.tail)
        return self.tail[segment.start - begins : segment.end - begins]


def to_join(segments: Sequence[Segment]) -> list[Segment]:
    """Returns the first neighbours that are to be joined, none of which is the last segment; none if there are none."""
    for least, most in pairwise((0, *_SIZES)):
        run, size = list[Segment](), 0
        for segment in segments[:-1]:
            follows = run and segment.start == run[-1].end and least <= segment.size <= MOST_PER_APPEND - size
            if follows and size < most and len(run) < _MOST_JOINED:
                run.append(segment)
                size += segment.size
            elif len(run) > 1:
                break
            else:
                run, size = ([segment], segment.size) if least <= segment.size < most else ([], 0)
        if len(run) > 1:
            return run
    return []


class GrowingWriter:
    """The writer's side of one growing file; callable from any thread."""

    def __init__(self, client: Objects, name: str) -> None:
        self._client = client
        self._name = name
        self._end: _End | None = None
        self._left: list[tuple[float, str]] = []
        """Objects whose bytes lie in another one now, the oldest first, and since when."""
        self._appended = self._joins_at = 0
        """Appends so far, and those before which nothing is joined: what could not be is not tried each time."""
        self._lock = threading.Lock()

    def look(self) -> None:
        """Find the end of what is there, unless it is known. Raises StoreError: the place cannot be read."""
        with self._lock:
            self._end = self._end or self._look()

    def append(self, lines: bytes, *, once: bool) -> None:
        """Append whole lines, each with its newline; all or nothing.

        Args:
            once: not where the file ends with them already.

        Raises:
            StoreError: it cannot be written, or is not known to be.
        """
        if len(lines) > MOST_PER_APPEND:
            raise StoreError(f"cannot append {len(lines)} bytes at once to {self._where}: append fewer records")
        with self._lock:
            for _ in range(_ATTEMPTS):
                if self._append(lines, once=once):
                    self._join()
                    return
            raise StoreError(f"cannot append to {self._where}: somebody else writes it; give each writer its own id")

    def _append(self, lines: bytes, *, once: bool) -> bool:
        """Appends lines; False: somebody wrote there since we looked."""
        end, self._end = self._end or self._look(), None
        if once and (end := self._with_tail(end, len(lines) + 1)) and _ends_with(end, lines):
            self._end = end
            return True
        if end.size + len(lines) > MOST_GROWN:
            raise StoreError(f"cannot append to {self._where}: it claims to have {end.size} bytes", blocked=True)
        end, before = self._with_last(end, len(lines))
        put = b"".join(map(end.bytes_of, before)) + lines
        added = Segment(end.birth, end.size, end.size + len(lines) - len(put), len(put))
        try:
            self._client.create(self._object(added), put)
        except AlreadyThereError:
            return False
        self._left += [(time.monotonic(), self._object(one)) for one in before]
        self._end = end.and_then(lines, [*end.segments[: len(end.segments) - len(before)], added])
        return True

    def _with_last(self, end: _End, more: int) -> tuple[_End, tuple[Segment, ...]]:
        """Returns the segment that is put again with so many bytes more, if there is one, and the end that holds it.

        It follows from what lies there: two writers of one file give the next segment one name.
        """
        last = end.segments[-1] if end.segments else None
        if last is None or last.end != end.size or last.size + more > _TAIL:
            return end, ()
        if not end.holds(last):
            try:
                end = end._replace(tail=self._read(last), own=last.size)
            except (StoreError, FileNotFoundError, ProtocolError):
                return end, ()
        return end, (last,) if len(end.tail) >= last.size else ()

    def _join(self) -> None:
        """Joins the first neighbours that are to be joined; what fails is tried again some appends later."""
        self._appended += 1
        if self._appended < self._joins_at or not (end := self._end) or not (some := to_join(end.segments)):
            return
        self._joins_at = self._appended + _PAUSE
        first, last = end.segments.index(some[0]), end.segments.index(some[-1])
        joined = Segment(end.birth, some[-1].at, some[0].start, some[-1].end - some[0].start)
        with suppress(StoreError, FileNotFoundError, ProtocolError):
            data = b"".join(end.bytes_of(one) if end.holds(one) else self._read(one) for one in some)
            if len(data) != joined.size:  # one of them is another one now: it stays, for who reads to see
                return
            self._client.put(self._object(joined), data)
            self._end = end._replace(segments=(*end.segments[:first], joined, *end.segments[last + 1 :]))
            self._joins_at = 0
            now = time.monotonic()
            self._left += [(now, self._object(one)) for one in some]
            gone = [name for since, name in self._left if since <= now - GRACE]
            self._client.delete(gone)
            self._left = [one for one in self._left if one[0] > now - GRACE]

    def _read(self, segment: Segment) -> bytes:
        return self._client.get_range(self._object(segment), 0, segment.size)

    def _object(self, segment: Segment) -> str:
        return f"{grown(self._name)}/{segment.name}"

    @property
    def _where(self) -> str:
        return self._client.describe(self._name)

    def _look(self) -> _End:
        """Find the end of what is there; half a line at the end is to be written over."""
        found = segments_of(self._client, self._name)
        if not found:
            return self._take_over()
        kept = counted(found)
        self._left = [(time.monotonic(), self._object(segment)) for segment in {*found} - {*kept}]
        size = max(segment.end for segment in kept)
        end = self._with_tail(_End(found[0].birth, size, b"", tuple(kept)), 1)
        if not end.size or end.tail.endswith(b"\n"):
            return end
        end = self._with_tail(end, MOST_TORN)
        whole = end.tail.rfind(b"\n") + 1
        return end._replace(size=end.size - len(end.tail) + whole, tail=end.tail[:whole])

    def _take_over(self) -> _End:
        """Returns a new file, which begins with the whole lines of an object that was put at its key."""
        birth = f"{time.time_ns() // 1000:014x}{uuid.uuid4().hex[:6]}"
        try:
            data = self._client.get(self._name, MOST_PER_APPEND).data
        except FileNotFoundError:
            return _End(birth, 0, b"")
        except ProtocolError:
            data = b""
            say_that_it_went(self._where)
        data = data[: data.rfind(b"\n") + 1]
        whole = Segment(birth, 0, 0, len(data))
        if data:
            self._client.create(self._object(whole), data)
        self._client.delete([self._name])
        return _End(birth, 0, b"").and_then(data, [whole] if data else [])

    def _with_tail(self, end: _End, wanted: int) -> _End:
        """Returns the same, with so many bytes of the tail, or all that there are."""
        wanted = min(wanted, end.size)
        if len(end.tail) >= wanted:
            return end
        stop, pieces = end.size - len(end.tail), pieces_of(self._name, end.segments)
        data = read_pieces(self._client, [p for piece in pieces if (p := piece.within(end.size - wanted, stop))])
        return end._replace(tail=data + end.tail)


def _ends_with(end: _End, lines: bytes) -> bool:
    """Tells whether these are the last lines already."""
    if not lines or not end.tail.endswith(lines):
        return False
    return end.size == len(lines) or end.tail[-len(lines) - 1 : -len(lines)] == b"\n"


# ── reading on ──────────────────────────────────────────────────────────────────────────────────────────────────────
def _behind(of: str) -> str:
    """Returns the name behind which a listing shows the segment of a cursor and all that follow.

    Args:
        of: the file's birth and the start of the segment that holds the last byte that was read.
    """
    birth, _, segment = of.rpartition(":")
    start = int(segment or 0)
    return Segment(birth, start - 1, start - 1, 1).name if start else birth


def read_on(client: Objects, name: str, text: str, limit: int) -> Records:
    """Reads on from a cursor; it implements Store.read_records."""
    for _ in range(_READINGS):
        with suppress(FileNotFoundError):
            return _read_on(client, name, text, limit, strict=True)
    return _read_on(client, name, text, limit, strict=False)


def _read_on(client: Objects, name: str, text: str, limit: int, *, strict: bool) -> Records:
    cursor, wanted = Cursor.parsed(text), bytes_of_end(text)
    birth, pieces = _find(client, name, cursor, None if wanted else limit)
    if not birth:
        return Records([], text)
    restarted, size = cursor.of.rpartition(":")[0] not in ("", birth), pieces[-1].end if pieces else 0
    cursor = Cursor() if restarted else cursor
    from_end = 0 < wanted < size
    begin = size - wanted - 1 if from_end else cursor.offset
    ahead = [piece for piece in pieces if piece.end > begin]
    if ahead and ahead[0].begin > begin:  # what lay between is gone, or was not to be read
        begin = ahead[0].begin
        cursor = Cursor("", begin)
    if len(ahead) > MOST_RECORDS:
        limit = min(limit, ahead[MOST_RECORDS - 1].end - begin)

    def read(begin: int, end: int) -> bytes:
        return read_pieces(client, _together(ahead, begin, end), strict=strict)

    def what(offset: int) -> str:
        return f"{birth}:{max((piece.origin for piece in pieces if piece.begin < offset), default=0)}"

    if from_end:
        return read_end(read, size, size - begin - 1, limit, what)._replace(restarted=restarted)
    return read_records(read, size, cursor, limit, what)._replace(restarted=restarted)


def _find(client: Objects, name: str, cursor: Cursor, limit: int | None) -> tuple[str, list[Piece]]:
    """Returns the birth and the pieces of the file, from the cursor on and as far as one reading goes, None: to the
    end; "": there is none."""
    enough = None if limit is None else cursor.offset + limit + MOST_PER_RECORD
    segments = segments_of(client, name, "" if cursor.of.startswith("=") else _behind(cursor.of), enough)
    if cursor.offset and not any(segment.start <= cursor.offset for segment in segments):
        segments = segments_of(client, name, enough=enough)  # gone, or put together into larger ones
    if segments:
        return segments[0].birth, pieces_of(name, segments)
    if (found := client.head(name)) is None:
        return "", []
    return f"={tag_of(found)}", [Piece(name, 0, 0, found["size"])]


def _together(ahead: list[Piece], begin: int, end: int) -> list[Piece]:
    """Returns the pieces that lie between two bytes, up to the first gap."""
    found = list[Piece]()
    for piece in ahead:
        if (cut := piece.within(begin, end)) and cut.begin == (found[-1].end if found else begin):
            found.append(cut)
    return found
