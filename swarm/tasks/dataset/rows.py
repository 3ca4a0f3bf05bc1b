"""All rows of a task, packed into a file without a name that is mapped read-only.

A child that is forked shares these pages without a copy of their table, so that 100,000 rows cost it no more than 500;
and nothing that runs in a child can change them for the next one.
"""

from __future__ import annotations

import array
import mmap
import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from swarm.tasks.dataset.reading import UnreadableError

BYTES_LIMIT = 2 * 2**30
"""Bytes of the rows of one task: what is compressed in a file can be a million times as large."""


class PackedRows:
    """A sequence of rows."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Pack them.

        Raises:
            OSError: no room for temporary files.
            UnreadableError: they are too large, and whatever the iterable raises.
        """
        encode = msgspec.msgpack.Encoder().encode
        self._ends = array.array("Q", [0])
        with tempfile.NamedTemporaryFile() as file:
            for row in rows:
                packed = encode(row)
                if self._ends[-1] + len(packed) > BYTES_LIMIT:
                    raise UnreadableError(f"more than {BYTES_LIMIT} bytes of rows; take a part")
                file.write(packed)
                self._ends.append(self._ends[-1] + len(packed))
            file.write(b"\0")  # an empty file cannot be mapped
            file.flush()
            read_only = os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pages = mmap.mmap(read_only, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(read_only)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.msgpack.decode(self._pages[self._ends[number] : self._ends[number + 1]])
        return found
