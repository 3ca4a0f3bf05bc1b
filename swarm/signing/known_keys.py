"""Trust on first use: which key each author was first seen with, remembered on this machine.

    {key folder}/known/{digest of the shared folder}/{experiment}/{author}.pub

One file per author, made only if it is not there: whichever of several processes sees an author first decides, and all
of them hold it to the same key.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LONGEST = 128
"""Bytes."""
MOST_PINS = 10_000
"""Files of one experiment: names cost a stranger nothing, and each that signs would have one here."""
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
        self._count: int | None = None
        """Pins on disk, once this process has made one."""

    def of(self, author: str) -> str | None:
        """The key that an author is held to, None if it was never seen with one."""
        if author not in self._pinned:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._pinned[author] = read_regular(self._file(author), _LONGEST).decode("ascii", "replace").strip()
        return self._pinned.get(author)

    def pin(self, author: str, public_key: str) -> str:
        """Hold an author to a key from now on; returns the one that it is held to, which another process may have set.

        Raises:
            OSError: it cannot be remembered, for longer than this process lives; as where MOST_PINS are.
        """
        self._pinned[author] = public_key
        if self._count is None:
            self._count = sum(1 for _ in self._folder.glob("*.pub"))
        if self._count >= MOST_PINS:
            raise OSError(errno.EDQUOT, f"there are {self._count} keys already", str(self._folder))
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
                self._count += 1
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
        self._count = None
        return True

    def __iter__(self) -> Iterator[KnownKey]:
        for file in sorted(self._folder.glob("*.pub")):
            if (key := self.of(file.stem)) is not None:
                yield KnownKey(file.stem, key)

    def _file(self, author: str) -> Path:
        return self._folder / f"{author}.pub"


def read_regular(file: Path, most: int) -> bytes:
    """The first bytes of a regular file, which may be linked to. Raises OSError; EINVAL for what is none."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", str(file))
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
