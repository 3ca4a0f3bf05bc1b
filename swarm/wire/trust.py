"""Trust, the interface for sealing and checking files, and Trusting, its implementation without signatures.

Packages that read and write the folder know this much; how signatures are made and checked is in swarm.signing.
"""

from __future__ import annotations

from typing import Protocol


class Trust(Protocol):
    """Seals what this node publishes, and judges what it reads. Callable from any thread."""

    @property
    def asks(self) -> bool:
        """Whether files are looked into for their authors at all."""

    def seal(self, data: bytes, key: str) -> bytes:
        """The file as it is to be published under this key."""

    def check(self, data: bytes, key: str) -> None:
        """Judge a file by the signature of the key's owner (swarm.wire.keys.owner_of).

        Raises:
            ProtocolError: `unsigned`, `bad_signature`, `other_key` than the one that its author is held to, or
                `pin_unreadable` if that cannot be found out.
        """

    def key_of(self, author: str) -> str | None:
        """The public key that an author is held to, base64; None if there is none, or it cannot be looked up."""


class Trusting:
    """Signing is off: files are taken for what their names say."""

    asks = False

    def seal(self, data: bytes, key: str) -> bytes:
        return data

    def check(self, data: bytes, key: str) -> None:
        return None

    def key_of(self, author: str) -> str | None:
        return None


TRUSTING = Trusting()
