"""Length-prefixed framing of messages on a byte stream: four bytes, big-endian, then the payload."""

from __future__ import annotations

import os
import struct

_LENGTH = struct.Struct(">I")
HEADER_BYTES = _LENGTH.size


def frame(payload: bytes) -> bytes:
    """Returns the message as it goes over the stream; at most 4 GiB."""
    return _LENGTH.pack(len(payload)) + payload


def payload_length(header: bytes) -> int:
    """Returns bytes that follow a header of HEADER_BYTES bytes."""
    length: int = _LENGTH.unpack(header)[0]
    return length


def read_frame(fd: int, most: int) -> bytes:
    """Wait for the next message from a pipe. Raises EOFError where none comes, or one of more bytes than that."""
    size = payload_length(_exactly(fd, HEADER_BYTES))
    if size > most:
        raise EOFError(f"a message of {size} bytes")
    return _exactly(fd, size)


def _exactly(fd: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = os.read(fd, size - len(found))
        if not chunk:
            raise EOFError("the other side has ended")
        found += chunk
    return bytes(found)


def split_frames(stream: bytes) -> list[bytes]:
    """Returns the complete messages at the start of the stream; a torn last one is left out."""
    payloads = []
    start = HEADER_BYTES
    while start <= len(stream):
        end = start + payload_length(stream[start - HEADER_BYTES : start])
        if end > len(stream):
            break
        payloads.append(stream[start:end])
        start = end + HEADER_BYTES
    return payloads
