"""What a store of whole objects needs of a place: eleven verbs, over which files, growing files and bundles are built.

    BucketStore, growing, bundles, listing ─▶ Objects ─┬ BucketClient   obstore: S3, Google Cloud Storage, Azure
                                                       └ a plugin's     any place that keeps whole objects by name

Names are whole names of objects. What is not there is a FileNotFoundError; what the place refuses, or does not answer
after a while, is a StoreError that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol, TypedDict

from swarm.store.base import Spent

PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds, at most, before each further try of a request."""
PIECE = 8 * 2**20
"""Bytes that are sent or taken in at once."""


class OddNameError(Exception):
    """A name there cannot be named in a request; the message has it."""


class ObjectMeta(TypedDict):
    path: str
    last_modified: datetime
    size: int
    e_tag: str | None


class Got(NamedTuple):
    data: bytes
    tag: str
    mark: str = ""
    """Random number of the write that created it, where the place keeps one."""


@dataclass(frozen=True)
class Upload:
    """Holds the size and digest of a local file as it was sent or taken in."""

    size: int
    digest: str


class Objects(Protocol):
    """One handle's way to a place of objects; callable from any thread."""

    spent: Spent

    def describe(self, name: str) -> str:
        """Returns the name as people find it."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whole or not at all, in the place of what is there."""

    def create(self, name: str, data: bytes, *, trusting: bool = False) -> None:
        """Write an object where there is none.

        Args:
            trusting: what the server says counts, whether it obeys or not.

        Raises:
            AlreadyThereError: there is one, and it is not this very write, whose answer was lost.
        """

    def upload(self, name: str, file: Path) -> Upload:
        """Write a local file to a name that nobody reads yet."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; what is not there is removed already."""

    def clear(self, prefix: str) -> None:
        """Remove all objects below a prefix: out of sight first, so that nobody finds half of a bundle."""

    def get(self, name: str, limit: int) -> Got:
        """Read an object of at most `limit` bytes.

        Raises:
            ProtocolError: `oversized`, or `unreadable`; nothing of it is taken in.
        """

    def get_range(self, name: str, start: int, end: int) -> bytes:
        """Reads some bytes of an object that has as many."""

    def download(self, name: str, target: Path, limit: int) -> Upload:
        """Copy an object of at most `limit` bytes, piece by piece, to a new local file, which goes if that fails.

        Raises:
            ProtocolError: `oversized` or `unreadable`.
            OSError: the file cannot be written.
        """

    def head(self, name: str) -> ObjectMeta | None:
        """Returns size and version of an object; None: there is none. Raises ProtocolError: `unreadable`."""

    def pages(self, prefix: str, after: str) -> Iterator[Sequence[ObjectMeta]]:
        """Yields all objects whose names lie below a prefix and behind `after`, in the order of names. Odd names
        (listing.py) are among them.

        Raises:
            OddNameError: one of them cannot be named.
        """


def tag_of(meta: ObjectMeta) -> str:
    """Returns the version of an object."""
    tag = meta["e_tag"]
    return tag.removeprefix("W/").strip('"') if tag else f"{meta['last_modified'].timestamp()}-{meta['size']}"


def say_that_it_went(where: str) -> None:
    """An object that stood where a writer writes."""
    from swarm.logs import get_logger  # here, for commands that only look do without it

    get_logger(__name__).warning("obstacle.removed", path=where)
