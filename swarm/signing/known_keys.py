"""Keeps what this machine remembers of an experiment: the key that each author was first seen with, and the
experiment's id.

    {key folder}/known/{digest of the shared folder}/{experiment}/{author}.pub    one pin
                                                                  ids.txt         the ids that it began or joined with

A pin is made only if it is not there: whichever of several processes sees an author first decides, and all of them hold
it to the same key. There is room for MOST_PINS. Names cost a stranger nothing, so what fills the room gives it back:

    pin ─▶ its author did work that counts ─▶ kept for good: the file may not be written any more
        └▶ not heard for FORGOTTEN_AFTER    ─▶ goes when there is no more room (its file's time says when it was heard)

No pin of a role, such as @clock, goes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from swarm.errors import ConfigError

_LONGEST = 128
"""Bytes."""
_SUFFIX = ".pub"
MOST_PINS = 10_000
"""Files of one experiment: names cost a stranger nothing, and each that signs would have one here."""
FORGOTTEN_AFTER = 3 * 86_400.0
"""Seconds: longer than a week-end."""
HEARD_EVERY = 3600.0
"""Seconds between two notes that an author was heard."""
ROOM_EVERY = 60.0
"""Seconds between two looks for room where there was none: each looks at every pin."""
_WHERE = "folder.txt"
"""Says in words which shared folder the digest stands for."""
_IDS = "ids.txt"
_MOST_OF_IDS = 64 * 1024
"""Bytes."""


class NoRoomError(OSError):
    """Says that there are MOST_PINS, and none of them may go."""


class KnownKey(NamedTuple):
    """One pin."""

    author: str
    public_key: str


class KnownKeys:
    """The pins of one experiment in one shared folder, and the ids that this machine knows it by."""

    def __init__(
        self, key_folder: Path, shared_folder: Path | str, experiment: str, wall: Callable[[], float] = time.time
    ) -> None:
        place = str(shared_folder)
        self._root = key_folder / "known" / hashlib.blake2b(place.encode(), digest_size=8).hexdigest()
        self._folder = self._root / experiment
        self._place = place
        self._wall = wall
        self._pinned: dict[str, str] = {}
        self._heard: dict[str, float] = {}
        self._kept: set[str] = set()
        self._full_at: float | None = None

    # ── pins ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def of(self, author: str) -> str | None:
        """Returns the key that an author is held to, None if it was never seen with one."""
        if author not in self._pinned:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._pinned[author] = read_regular(self._file(author), _LONGEST).decode("ascii", "replace").strip()
        return self._pinned.get(author)

    def pin(self, author: str, public_key: str) -> str:
        """Hold an author to a key from now on; returns the one that it is held to, which another process may have set.

        Raises:
            NoRoomError: there are too many already.
            OSError: it cannot be remembered.
        """
        if not self._has_room():
            raise NoRoomError(f"there are {MOST_PINS} keys in {self._folder}")
        file = self._file(author)
        half = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
        self._make_folder()
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

    def hold(self, author: str, public_key: str) -> None:
        """Hold an author to a key as long as this process lives."""
        self._pinned[author] = public_key

    def heard(self, author: str) -> None:
        """Note that an author signs, so that its pin stays."""
        now = self._wall()
        if abs(now - self._heard.get(author, -HEARD_EVERY)) >= HEARD_EVERY:
            self._heard[author] = now
            with suppress(OSError):
                os.utime(self._file(author), (now, now))

    def keep(self, author: str) -> None:
        """Never give up an author's pin for another's. One that is not there is left so."""
        if author not in self._kept and author in self._pinned:
            self._kept.add(author)
            with suppress(OSError):
                self._file(author).chmod(0o400)

    def forget(self, author: str) -> bool:
        """Hold an author to no key, until it is seen again; False if there was none."""
        self._pinned.pop(author, None)
        self._kept.discard(author)
        if was_there := _removed(self._file(author)):
            self._full_at = None
        return was_there

    def __iter__(self) -> Iterator[KnownKey]:
        for file in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if (key := self.of(file.stem)) is not None:
                yield KnownKey(file.stem, key)

    def _file(self, author: str) -> Path:
        return self._folder / f"{author}{_SUFFIX}"

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._root / _WHERE).write_text(self._place + "\n", "utf-8")

    # ── room ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def _has_room(self) -> bool:
        now = self._wall()
        if self._full_at is not None and abs(now - self._full_at) < ROOM_EVERY:
            return False
        pins = self._pins()
        if len(pins) >= MOST_PINS:
            pins = [pin for pin in pins if not self._gave_up(pin, now)]
        has_room = len(pins) < MOST_PINS
        self._full_at = None if has_room else now
        return has_room

    def _pins(self) -> list[os.DirEntry[str]]:
        with suppress(FileNotFoundError), os.scandir(self._folder) as found:
            return [entry for entry in found if entry.name.endswith(_SUFFIX)]
        return []

    def _gave_up(self, pin: os.DirEntry[str], now: float) -> bool:
        """Tells whether a pin was one that may go, and is gone."""
        author = pin.name.removesuffix(_SUFFIX)
        try:
            found = pin.stat(follow_symlinks=False)
            if author.startswith("@") or not found.st_mode & stat.S_IWUSR or now - found.st_mtime < FORGOTTEN_AFTER:
                return False
            os.unlink(pin.path)
        except FileNotFoundError:  # another process was quicker
            pass
        except OSError:
            return False
        self._pinned.pop(author, None)
        return True

    # ── ids ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def ids(self) -> list[str]:
        """Returns the ids by which this machine knows the experiment, the last one last.

        Raises:
            ConfigError: that cannot be looked up.
        """
        try:
            return read_regular(self._folder / _IDS, _MOST_OF_IDS).decode("ascii", "replace").split()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ConfigError(f"cannot read {self._folder / _IDS}: {error.strerror or error}") from None

    def add_id(self, id_: str) -> None:
        """Know the experiment by one more. Raises OSError: it cannot be remembered."""
        self._make_folder()
        with open(self._folder / _IDS, "a", encoding="ascii") as file:
            file.write(f"{id_}\n")
            file.flush()
            os.fsync(file.fileno())

    def forget_ids(self) -> bool:
        """Take the experiment for any that is there; False if none was known."""
        return _removed(self._folder / _IDS)


def _removed(file: Path) -> bool:
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


def read_regular(file: Path, most: int) -> bytes:
    """Returns the first bytes of a regular file, which may be linked to. Raises OSError; EINVAL for what is none."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", str(file))
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
