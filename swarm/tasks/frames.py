"""Length-prefixed framing of messages on a byte stream: four bytes, big-endian, then the payload."""

from __future__ import annotations

import struct

_LENGTH = struct.Struct(">I")
HEADER_BYTES = _LENGTH.size


def frame(payload: bytes) -> bytes:
    """The message as it goes over the stream; at most 4 GiB."""
    return _LENGTH.pack(len(payload)) + payload


def payload_length(header: bytes) -> int:
    """Bytes that follow a header of HEADER_BYTES bytes."""
    length: int = _LENGTH.unpack(header)[0]
    return length


def split_frames(stream: bytes) -> list[bytes]:
    """The complete messages at the start of the stream; a torn last one is left out."""
    payloads = []
    start = HEADER_BYTES
    while start <= len(stream):
        end = start + payload_length(stream[start - HEADER_BYTES : start])
        if end > len(stream):
            break
        payloads.append(stream[start:end])
        start = end + HEADER_BYTES
    return payloads
