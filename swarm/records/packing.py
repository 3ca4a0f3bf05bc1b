"""Files packed into one: a gzipped tar of regular files (POSIX ustar), which any tar unpacks.

    pack(files) ─▶ bytes        PackWriter(file) ─▶ add, add_from ─▶ close
    members(file, most) ─▶ PackedMember, one after the other: `data`, or `copy_to`

What is read may be a stranger's, so nothing but regular files is taken: no links, devices, folders, holes or extended
headers. A name is what the caller makes of it. No more than `most` bytes are ever unpacked, and one block is held.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from swarm.errors import ProtocolError

BLOCK = tarfile.BLOCKSIZE
CHUNK = 2**20
"""Bytes that are copied at a time."""
LONGEST_END = 2**20
"""Bytes of zeros that other programs may put behind the last file; `PackWriter` writes two blocks."""
MOST_MEMBERS = 200_000
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)


class PackWriter:
    """Writes one packed file; the same files in the same order give the same bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0)

    def add(self, name: str, data: bytes) -> None:
        """Add a file. Raises ValueError for a name that is too long for the format."""
        self.add_from(name, len(data), io.BytesIO(data))

    def add_from(self, name: str, size: int, source: IO[bytes]) -> None:
        """Add a file of so many bytes. Raises ProtocolError if the source has fewer."""
        head = tarfile.TarInfo(name)
        head.size, head.mode = size, 0o644
        self._zip.write(head.tobuf(tarfile.USTAR_FORMAT))
        left = size
        while left:
            chunk = source.read(min(CHUNK, left))
            if not chunk:
                raise ProtocolError("malformed", f"{name} became shorter while it was packed")
            self._zip.write(chunk)
            left -= len(chunk)
        self._zip.write(b"\0" * (-size % BLOCK))

    def close(self) -> None:
        """Finish; the file itself stays open."""
        self._zip.write(b"\0" * 2 * BLOCK)
        self._zip.close()


def pack(files: Mapping[str, bytes]) -> bytes:
    """Returns all of them as one, in their order."""
    packed = io.BytesIO()
    writer = PackWriter(packed)
    for name, data in files.items():
        writer.add(name, data)
    writer.close()
    return packed.getvalue()


class _Unpacked:
    """The bytes of a gzip file, and how many may still come."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._zip = gzip.GzipFile(fileobj=file, mode="rb")
        self._left = self._most = most

    def read(self, size: int) -> bytes:
        """Just so many bytes. Raises ProtocolError: there are fewer, more than may come, or they are no gzip."""
        self._left -= size
        if self._left < 0:
            raise ProtocolError("oversized", f"it unpacks to more than {self._most} bytes")
        data = self._read(size)
        if len(data) < size:
            raise ProtocolError("malformed", "it ends in the middle of a file")
        return data

    def end(self) -> None:
        """Read the rest, which is zeros, and the checksum of all. Raises ProtocolError: it is something else."""
        rest = self._read(LONGEST_END + 1)
        if len(rest) > LONGEST_END or rest.strip(b"\0"):
            raise ProtocolError("malformed", "something follows behind its last file")

    def _read(self, size: int) -> bytes:
        try:
            return self._zip.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise ProtocolError("malformed", f"it is no whole gzip file: {error}") from None


class PackedMember:
    """One file in a packed one; what was not read of it is passed over when the next one is asked for."""

    def __init__(self, name: str, size: int, source: _Unpacked) -> None:
        self.name, self.size, self._source = name, size, source
        self._left = size + -size % BLOCK

    def data(self, most: int) -> bytes:
        """Returns all of it. Raises ProtocolError: it is larger than `most` bytes."""
        if self.size > most:
            raise ProtocolError("oversized", f"{self.name[:200]!r} has {self.size} bytes, the limit is {most}")
        taken = io.BytesIO()
        self.copy_to(taken.write)
        return taken.getvalue()

    def copy_to(self, write: Callable[[bytes], object]) -> None:
        """Give out all of it, a chunk at a time."""
        left = self.size
        while left:
            write(chunk := self._read(min(CHUNK, left)))
            left -= len(chunk)

    def pass_over(self) -> None:
        """Skip what was not read."""
        while self._left:
            self._read(min(CHUNK, self._left))

    def _read(self, size: int) -> bytes:
        self._left -= size
        return self._source.read(size)


def members(file: IO[bytes], most: int) -> Iterator[PackedMember]:
    """Yields the files in a packed one, in order.

    Args:
        most: bytes that all of it may unpack to.

    Raises:
        ProtocolError: `oversized`, or `malformed` for what `PackWriter` does not write.
    """
    source, count = _Unpacked(file, most), 0
    while any(head := source.read(BLOCK)):
        count += 1
        if count > MOST_MEMBERS:
            raise ProtocolError("oversized", f"it holds more than {MOST_MEMBERS} files")
        member = _member(head, source)
        yield member
        member.pass_over()
    source.end()


def _member(head: bytes, source: _Unpacked) -> PackedMember:
    try:
        info = tarfile.TarInfo.frombuf(head, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
        raise ProtocolError("malformed", f"it is no tar file: {error}") from None
    if head[156:157] not in _REGULAR or info.type not in _REGULAR or info.size < 0:
        raise ProtocolError("malformed", f"{info.name[:200]!r} is no regular file")
    return PackedMember(info.name, info.size, source)
