"""Trust, the interface for sealing and checking files, and Trusting, its implementation without signatures.

Packages that read and write the folder know this much; how signatures are made and checked is in swarm.signing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class Trust(Protocol):
    """Seals what this node publishes, and judges what it reads. Callable from any thread."""

    @property
    def asks(self) -> bool:
        """Tells whether files are looked into for their authors at all."""

    def seal(self, data: bytes, key: str) -> bytes:
        """Returns the file as it is to be published under this key."""

    def check(self, data: bytes, key: str) -> None:
        """Judge a file by the signature of the key's owner (swarm.wire.keys.owner_of).

        Raises:
            ProtocolError: `unsigned`, `bad_signature`, `other_key` than the one that its author is held to,
                `pin_unreadable` if that cannot be found out, `not_pinned` if its author is new and no more can be
                remembered, or `not_begun` before the experiment is there.
            ExperimentError: the experiment is another one than this machine began in; at a node's start alone.
        """

    def key_of(self, author: str) -> str | None:
        """Returns the public key that an author is held to, base64; None if there is none or it cannot be found out."""

    def keep(self, authors: Iterable[str]) -> None:
        """Keeps the keys of authors that have done work that counts: they are never given up for others. Blocking."""

    def begin(self, fresh: str, again: Callable[[], bool]) -> str:
        """Returns the id with which this node writes experiment.json. Blocking.

        Args:
            fresh: random.
            again: whether the experiment goes on, and only its file is gone.

        Returns:
            The one that this machine remembers, where the experiment goes on; else the fresh one.
        """


class Trusting:
    """Signing is off: files are taken for what their names say."""

    asks = False

    def seal(self, data: bytes, key: str) -> bytes:
        return data

    def check(self, data: bytes, key: str) -> None:
        return None

    def key_of(self, author: str) -> str | None:
        return None

    def keep(self, authors: Iterable[str]) -> None:
        return None

    def begin(self, fresh: str, again: Callable[[], bool]) -> str:
        return fresh


TRUSTING = Trusting()
