"""The rows that a `.wandb` file keeps: records of wandb's own protocol buffers in the log format of LevelDB.

wandb 0.31 has no reader for them in Python. 7 bytes of header; blocks of 32 KiB; each record, or part of one, is behind
its checksum (4 bytes), length (2) and kind (1), and no header of one is split between two blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from wandb.proto.wandb_internal_pb2 import Record

MAGIC = b":W&B"
_HEADER, _BLOCK = 7, 32 * 1024
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records_of(data: bytes) -> Iterator[Record]:
    """Yields the whole records. What is no such file has none."""
    part = b""
    for kind, piece in _pieces(data):
        part = part + piece if kind in (_MIDDLE, _LAST) else piece
        if kind in (_WHOLE, _LAST):
            yield Record.FromString(part)


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = _HEADER if data.startswith(MAGIC) else len(data)
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        end = at + _HEADER + length
        if not _WHOLE <= kind <= _LAST or end > len(data):
            return
        yield kind, data[at + _HEADER : end]
        at = end
