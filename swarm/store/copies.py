"""Private copies of a shared place's files, for who reads them piece by piece: nobody else changes them meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from swarm.errors import StoreError
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
    """Keeps copies in one local folder, which the first one makes."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None

    def fetch(self, store: Store, key: str, name: str, limit: int) -> Copy:
        """Copy a file of at most `limit` bytes in the place of what was copied under this name before. Blocking.

        Args:
            name: of the copy, safe as a file name.

        Raises:
            FileNotFoundError, ProtocolError: as Store.get_to_file.
            StoreError: as that, or this machine has no room for temporary files.
        """
        target = self._free(name)
        try:
            store.get_to_file(key, target, limit)
            with target.open("rb") as file:
                return Copy(str(target), hashlib.file_digest(file, "sha256").hexdigest(), target.stat().st_size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _no_room(error) from None

    def _free(self, name: str) -> Path:
        try:
            self._folder = self._folder or TemporaryDirectory(prefix="swarm-copies-", ignore_cleanup_errors=True)
            target = Path(self._folder.name) / name
            target.unlink(missing_ok=True)  # half of it, where the place failed
        except OSError as error:
            raise _no_room(error) from None
        return target

    def remove(self) -> None:
        """All of them."""
        if self._folder:
            self._folder.cleanup()


def _no_room(error: OSError) -> StoreError:
    said = error.strerror or error
    return StoreError(f"cannot keep a copy among the temporary files: {said}; free space there, or set TMPDIR")


@contextmanager
def private_copies() -> Iterator[Copies]:
    """A folder for copies that goes with the block."""
    copies = Copies()
    try:
        yield copies
    finally:
        copies.remove()
