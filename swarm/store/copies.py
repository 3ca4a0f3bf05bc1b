"""Private copies of a shared place's files, for who reads them piece by piece: nobody else changes them meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from swarm.store.base import Store
from swarm.store.folder.bundles import copy_opened as copy_opened


class Copy(NamedTuple):
    """One file, copied."""

    file: str
    """Its path on this machine."""
    sha256: str
    size: int
    """Bytes."""


class Copies:
    """In one local folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def fetch(self, store: Store, key: str, name: str, limit: int) -> Copy:
        """Copy a file of at most `limit` bytes in the place of what was copied under this name before. Blocking.

        Args:
            name: of the copy, safe as a file name.

        Raises:
            FileNotFoundError, ProtocolError, StoreError: as Store.get_to_file.
        """
        target = self._folder / name
        target.unlink(missing_ok=True)  # half of it, where the place failed
        store.get_to_file(key, target, limit)
        with target.open("rb") as file:
            return Copy(str(target), hashlib.file_digest(file, "sha256").hexdigest(), target.stat().st_size)


@contextmanager
def private_copies() -> Iterator[Copies]:
    """A folder for copies that goes with the block."""
    with TemporaryDirectory(prefix="swarm-copies-") as folder:
        yield Copies(folder)
