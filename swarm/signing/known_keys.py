"""Trust on first use: which key each author was first seen with, remembered on this machine.

    {key folder}/known/{digest of the shared folder}/{experiment}/{author}.pub

One file per author, made only if it is not there: whichever of several processes sees an author first decides, and all
of them hold it to the same key.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LONGEST = 128
_WHERE = "folder.txt"
"""Says in words which shared folder the digest stands for."""


class KnownKey(NamedTuple):
    """One pin."""

    author: str
    public_key: str


class KnownKeys:
    """The pins of one experiment in one shared folder."""

    def __init__(self, key_folder: Path, shared_folder: Path | str, experiment: str) -> None:
        place = str(shared_folder)
        self._root = key_folder / "known" / hashlib.blake2b(place.encode(), digest_size=8).hexdigest()
        self._folder = self._root / experiment
        self._place = place
        self._pinned: dict[str, str] = {}

    def of(self, author: str) -> str | None:
        """The key that an author is held to, None if it was never seen with one."""
        if author not in self._pinned:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._pinned[author] = self._file(author).read_text("ascii", "replace")[:_LONGEST].strip()
        return self._pinned.get(author)

    def pin(self, author: str, public_key: str) -> str:
        """Hold an author to a key from now on; returns the one that it is held to, which another process may have set.

        Raises:
            OSError: it cannot be remembered, for longer than this process lives.
        """
        self._pinned[author] = public_key
        file = self._file(author)
        half = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._root / _WHERE).write_text(self._place + "\n", "utf-8")
        with half.open("w") as stream:
            stream.write(public_key + "\n")
            stream.flush()
            os.fsync(stream.fileno())  # an empty pin after a power cut would shut its author out
        try:
            with suppress(FileExistsError):
                os.link(half, file)  # whole or not at all, and never over another
        finally:
            half.unlink()
        self._pinned.pop(author, None)
        return self.of(author) or public_key

    def forget(self, author: str) -> bool:
        """Hold an author to no key, until it is seen again; False if there was none."""
        self._pinned.pop(author, None)
        try:
            self._file(author).unlink()
        except FileNotFoundError:
            return False
        return True

    def __iter__(self) -> Iterator[KnownKey]:
        for file in sorted(self._folder.glob("*.pub")):
            if (key := self.of(file.stem)) is not None:
                yield KnownKey(file.stem, key)

    def _file(self, author: str) -> Path:
        return self._folder / f"{author}.pub"
