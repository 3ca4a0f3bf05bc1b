"""Files packed into one: a gzipped tar of regular files (POSIX ustar), which any tar unpacks.

    pack(files) ─▶ bytes        members(file, most) ─▶ name and contents, one file after the other

What is read may be a stranger's, so nothing but regular files is taken: no links, devices, folders, holes or extended
headers. A name is what the caller makes of it. No more than `most` bytes are ever unpacked, and one file is held.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO

from swarm.errors import ProtocolError

BLOCK = tarfile.BLOCKSIZE
LONGEST_END = 2**20
"""Bytes of zeros that other programs may put behind the last file; `pack` writes two blocks."""
MOST_MEMBERS = 200_000
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Returns all of them as one, in their order; the same files in the same order give the same bytes.

    Raises:
        ValueError: a name is too long for the format.
    """
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as zipped:
        for name, data in files.items():
            head = tarfile.TarInfo(name)
            head.size, head.mode = len(data), 0o644
            zipped.write(head.tobuf(tarfile.USTAR_FORMAT) + data + b"\0" * (-len(data) % BLOCK))
        zipped.write(b"\0" * 2 * BLOCK)
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


def members(file: IO[bytes], most: int) -> Iterator[tuple[str, bytes]]:
    """Yields name and contents of the files in a packed one, in order.

    Args:
        most: bytes that all of it may unpack to.

    Raises:
        ProtocolError: `oversized`, or `malformed` for what `pack` does not write.
    """
    source, count = _Unpacked(file, most), 0
    while any(head := source.read(BLOCK)):
        count += 1
        if count > MOST_MEMBERS:
            raise ProtocolError("oversized", f"it holds more than {MOST_MEMBERS} files")
        name, size = _described(head)
        data = source.read(size)
        source.read(-size % BLOCK)
        yield name, data
    source.end()


def _described(head: bytes) -> tuple[str, int]:
    """Returns the name and the size of the file behind a header."""
    try:
        info = tarfile.TarInfo.frombuf(head, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
        raise ProtocolError("malformed", f"it is no tar file: {error}") from None
    if head[156:157] not in _REGULAR or info.type not in _REGULAR or info.size < 0:
        raise ProtocolError("malformed", f"{info.name[:200]!r} is no regular file")
    return info.name, info.size
