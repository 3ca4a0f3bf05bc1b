"""Objects that are packed by zstd (RFC 8878), where the URL of the place asks for it: `?compress=zstd`.

A packed object is one frame, which its first four bytes tell: no JSON begins with them. So readers need no setting,
nodes that pack and nodes that do not work side by side, and what is signed is what was packed.
"""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.extras import installed_by

FRAME = b"\x28\xb5\x2f\xfd"
LEAST = 1024
"""Bytes from which packing pays: providers charge small objects alike."""
LEVEL = 3
MOST_TIMES = 100
"""How many times as long as packed contents may be; rollouts have 8 to 9. Else 2 kB of a stranger would be 64 MiB in
everybody's copy, archive and memory. What is more alike is not packed."""
ALWAYS = 2**16
"""Bytes that are unpacked whatever they were packed to."""
PIECE = 64
"""Bytes that are unpacked at once: a block takes 3 bytes or more and makes 128 KiB at most, so 3 MiB beyond a limit."""
LARGEST_WINDOW = 2**23
"""Bytes that a stranger's frame may have a reader hold beside its contents; ours has less."""


def pack(data: bytes) -> bytes:
    """Packs data by zstd, unless that makes it no shorter or readers would refuse it: then the data is returned
    unchanged."""
    if len(data) < LEAST:
        return data
    from zstandard import ZstdCompressor

    packed = ZstdCompressor(level=LEVEL).compress(data)
    return packed if len(packed) < len(data) <= _most(len(packed)) else data


def _most(packed: int) -> int:
    """Returns bytes that so many may be unpacked to."""
    return max(ALWAYS, MOST_TIMES * packed)


def unpack(data: bytes, limit: int, where: str) -> bytes:
    """Unpacks data, and returns data that is not packed as it is. It makes at most `limit` bytes, or MOST_TIMES as
    many.

    Raises:
        ProtocolError: `oversized`; or `malformed`, it is no whole frame, or something follows it; or `unreadable`, the
            library is not there.
    """
    if not data.startswith(FRAME):
        return data
    try:
        from zstandard import ZstdDecompressor, ZstdError
    except ImportError:
        raise ProtocolError("unreadable", f"{where} is packed by zstd: {installed_by('bucket')}") from None
    one, unpacked = ZstdDecompressor(max_window_size=LARGEST_WINDOW).decompressobj(), bytearray()
    limit = min(limit, _most(len(data)))
    try:
        for start in range(0, len(data), PIECE):
            unpacked += one.decompress(data[start : start + PIECE])
            if len(unpacked) > limit:
                raise ProtocolError("oversized", f"{where} has more than {limit} bytes, the limit, once unpacked")
    except ZstdError as error:
        raise ProtocolError("malformed", f"{where} is no frame of zstd: {error}") from None
    if not one.eof or one.unused_data:
        raise ProtocolError("malformed", f"{where} is no whole frame of zstd")
    return bytes(unpacked)
