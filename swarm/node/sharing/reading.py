"""Reading peers' rollout files: listing a stage, one bounded read per file, and whether a file has changed since.

All of it blocks, on files of strangers, and is called through Blocking.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from swarm.config import Settings
from swarm.errors import ProtocolError, StoreError
from swarm.store.base import MOST_NAMES, Kind
from swarm.store.run import Run
from swarm.types import RolloutGroup, RoundKey
from swarm.wire import keys
from swarm.wire.codec import Claims, decode, to_claims, to_groups
from swarm.wire.messages import RolloutFile

MOST_AGAIN = 3
"""Times that an unchanged file is read again, because somebody touched it, before it is left alone."""
MOST_TRIES = 16
"""Times that what lies at one name is read, each time something else, until it is a file that can be taken."""
UNSEEN = "unseen"
"""Instead of a tag, where only names were listed."""
GONE = "gone"
"""Instead of a reason for which a file was refused."""


@dataclass(frozen=True)
class Reading:
    """One file, as it was when it was read."""

    tag: str
    """Its version, by the store."""
    digest: bytes
    """Of its bytes."""
    size: int
    """Bytes."""
    again: int = 0
    """How often it was read again because its tag had changed."""
    refused: str = ""
    """Why it is no file that can be taken. It may be a stranger's: what comes in its place is read as if first."""

    @property
    def may_be_read_again(self) -> bool:
        """Should its tag be another one."""
        return self.again < (MOST_TRIES - 1 if self.refused else MOST_AGAIN)


class PeersFile(NamedTuple):
    """What a file holds."""

    groups: list[RolloutGroup]
    claims: list[Claims]
    """One per group."""
    timestamp: float
    """When it was published, by the peer's clock."""
    size: int
    """Bytes."""


class Fetched(NamedTuple):
    """What came of reading a file."""

    reading: Reading
    file: PeersFile | ProtocolError | None
    """The error: it is refused; None: nothing is there any more."""


class PeersFiles:
    """The rollout files of one run, as one node's settings have them read."""

    def __init__(self, settings: Settings, run: Run) -> None:
        self._run = run
        self._limit = settings.max_file_bytes
        self._origin_needed = settings.admit != "unverified"
        self._keep_tokens = settings.importance_cap > 0  # else they need not be held in memory

    def tags(self, key: RoundKey, read: Set[str], only: Set[str] | None = None) -> dict[str, str]:
        """The nodes that have a file for a stage, each with its tag; "": it is no file; UNSEEN: it was not looked at.

        Args:
            read: nodes whose tags are wanted in any case.
            only: look for these nodes and those in `read` by name, without listing the stage.

        Raises:
            StoreError: the stage cannot be listed.
        """
        store, found, wanted = self._run.store, dict[str, str](), read
        if only is None:
            page = store.list(keys.rollouts(key), tags=True)
            rest = store.list(keys.rollouts(key), after=page.next, limit=MOST_NAMES).entries if page.next else []
            found = {node: entry.tag for entry in page.entries if (node := keys.node_of(entry.name))}
            found |= {node: UNSEEN for entry in rest if (node := keys.node_of(entry.name))}
            wanted = read & {node for entry in rest if (node := keys.node_of(entry.name))}
        for node in sorted(wanted | (only or set())):
            with suppress(ProtocolError):  # the stage may not be entered any more
                if entry := store.stat(keys.rollout(key, node)):
                    found[node] = entry.tag if entry.kind is Kind.FILE else ""
        return found

    def fetch(self, key: RoundKey, peer: str, tag: str = "") -> Fetched:
        """Read a file. Raises StoreError as Store.get does.

        Args:
            tag: as it was listed; what cannot be read at all is known by that, also what is gone since: a file that was
                deleted, or an obstacle that its author moved out of the way of the file.
        """
        reading = Reading(tag, b"", 0)
        try:
            blob = self._run.store.get(keys.rollout(key, peer), self._limit)
            reading = Reading(blob.tag, _digest(blob.data), len(blob.data))
            return Fetched(reading, self.parse(key, peer, blob.data))
        except FileNotFoundError:
            return Fetched(replace(reading, refused=GONE if tag else "not_a_file"), None)
        except ProtocolError as error:
            return Fetched(replace(reading, refused=error.reason), error.as_value())

    def parse(self, key: RoundKey, peer: str, data: bytes) -> PeersFile:
        """What the bytes of a peer's file for one stage say, once its signature is what this node asks for.

        Raises:
            ProtocolError: as Trust.check, decode and to_groups do.
        """
        place = keys.rollout(key, peer)
        where = self._run.store.describe(place)
        self._run.trust.check(data, place)
        file = decode(data, RolloutFile, where)
        if not math.isfinite(file.timestamp):
            raise ProtocolError("malformed", f"{where} has no finite timestamp")
        groups = to_groups(file, peer, key, origin_needed=self._origin_needed, with_tokens=self._keep_tokens)
        return PeersFile(groups, to_claims(file), file.timestamp, len(data))

    def read_again(self, key: RoundKey, peer: str, before: Reading) -> Reading | None:
        """A file whose tag is another one by now, as it is to be known from now on; None: its content is another one.

        One that was only touched is the same, as is one that was replaced by somebody who could not sign for its
        author, and one that is gone or no regular file any longer.
        """
        place = keys.rollout(key, peer)
        try:
            blob = self._run.store.get(place, self._limit)
        except (FileNotFoundError, ProtocolError, StoreError):
            return before
        if _digest(blob.data) != before.digest and self._is_its_authors(blob.data, place):
            return None
        return replace(before, tag=blob.tag, again=before.again + 1)

    def _is_its_authors(self, data: bytes, place: str) -> bool:
        try:
            self._run.trust.check(data, place)
        except ProtocolError:
            return False
        return True

    def describe(self, key: RoundKey, peer: str) -> str:
        """The file as people find it."""
        return self._run.store.describe(keys.rollout(key, peer))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
