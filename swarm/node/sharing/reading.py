"""Reading peers' rollout files: listing a stage, one bounded read per file, and whether a file has changed since.

A file is read with the groups that it names, which were published before it; all together take no more bytes than one
file may. What a stranger may have taken away or written over may come yet: then the file is as one that is not there.

All of it blocks, on files of strangers, and is called through Blocking.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from swarm.config import Settings
from swarm.errors import ProtocolError, StoreError
from swarm.node.sharing.selection import NOT_ITS_OWN
from swarm.records.listing import MOST_BY_NAME
from swarm.store.base import MOST_NAMES, PAGE, Kind, Page
from swarm.store.run import Run
from swarm.types import RolloutGroup, RoundKey
from swarm.wire import keys
from swarm.wire.codec import Claims, decode, to_claims, to_groups
from swarm.wire.group_files import digest, named_by, one_group, put_together
from swarm.wire.messages import RolloutFile

MOST_AGAIN = 3
"""Times that an unchanged file is read again, because somebody touched it, before it is left alone."""
MOST_TRIES = 16
"""Times that what lies at one name is read, each time something else, until it is a file that can be taken."""
UNSEEN = "unseen"
"""Instead of a tag, where only names were listed."""
GONE = "gone"
"""Instead of a reason for which a file was refused."""
MISSING = "missing_part"
MAY_COME_YET = NOT_ITS_OWN | {MISSING}
"""What is wrong with a file of one group while its author's may not have arrived."""


@dataclass(frozen=True)
class Reading:
    """One file, as it was when it was read."""

    tag: str
    """Its version, by the store."""
    digest: bytes
    """SHA-256 of its bytes."""
    size: int
    """Bytes, those of the groups that it names included."""
    again: int = 0
    """How often it was read again because its tag had changed."""
    refused: str = ""
    """Why it is no file that can be taken. It may be a stranger's: what comes in its place is read as if first."""

    @property
    def may_be_read_again(self) -> bool:
        """Should its tag be another one."""
        return self.again < (MOST_TRIES - 1 if self.refused else MOST_AGAIN)


class PeersFile(NamedTuple):
    """Holds the contents of a peer's rollout file."""

    groups: list[RolloutGroup]
    claims: list[Claims]
    """One per group."""
    timestamp: float
    """When it was published, by the peer's clock."""
    size: int
    """Bytes, those of the groups that it names included."""
    earlier: Mapping[int, str]
    """Slot -> SHA-256 of the groups that it names."""
    mixture: Mapping[str, float] | UnsetType = UNSET
    """Mixture as it says."""


class EarlyGroup(NamedTuple):
    """A group that was published before the file that names it."""

    group: RolloutGroup
    claims: Claims
    sha256: str
    size: int
    """Bytes."""


class Fetched(NamedTuple):
    """Holds the outcome of reading a file."""

    reading: Reading
    file: PeersFile | ProtocolError | None
    """The error: it is refused; None: nothing is there any more."""


class Listed(NamedTuple):
    """Holds a listing of one stage's rollout files."""

    tags: dict[str, str]
    """Node -> tag of its file; "": it is no file; UNSEEN: it was not looked at."""
    flooded: bool = False
    """There are more than PAGE names beside, which are no node's files."""


class PeersFiles:
    """The rollout files of one run, as one node's settings have them read."""

    def __init__(self, settings: Settings, run: Run) -> None:
        self._run = run
        self._limit = settings.limits.max_file_bytes
        self._most_groups = settings.limits.peer_groups
        self._origin_needed = settings.admit != "unverified"
        self._keep_tokens = settings.token_weight_cap > 0  # else they need not be held in memory
        self._has_tags = settings.sparing  # a listing of a bucket has tags; of a folder each is looked for by itself

    def tags(self, key: RoundKey, read: Set[str], only: Set[str] | None = None) -> Listed:
        """Returns the nodes that have a file for a stage.

        Args:
            read: nodes whose tags are wanted in any case.
            only: look for these nodes and those in `read` by name, without listing the stage.

        Raises:
            StoreError: the stage cannot be listed.
        """
        store, prefix, found, wanted, junk = self._run.store, keys.rollouts(key), dict[str, str](), read, 0
        if only is None:
            has_tags = self._has_tags or len(read) > MOST_BY_NAME
            page = store.list(prefix, tags=True) if has_tags else Page([])
            more = page.next or not has_tags
            rest = store.list(prefix, after=page.next, limit=MOST_NAMES) if more else Page([])
            found = {node: entry.tag for entry in page.entries if (node := keys.node_in(prefix, entry.name))}
            kinds = {node: entry.kind for entry in rest.entries if (node := keys.node_in(prefix, entry.name))}
            found |= {node: UNSEEN if kind is Kind.FILE else "" for node, kind in kinds.items()}
            wanted, junk = read & kinds.keys(), page.looked + rest.looked - len(found)
        for node in sorted(wanted | (only or set())):
            with suppress(ProtocolError):  # the stage may not be entered any more
                if entry := store.stat(keys.rollout(key, node)):
                    found[node] = entry.tag if entry.kind is Kind.FILE else ""
        return Listed(found, junk > PAGE)

    def fetch(self, key: RoundKey, peer: str, tag: str = "") -> Fetched:
        """Read a file, and the groups that it names. Raises StoreError as Store.get does.

        Args:
            tag: as it was listed; what cannot be read at all is known by that, also what is gone since: a file that was
                deleted, or an obstacle that its author moved out of the way of the file.
        """
        reading = Reading(tag, b"", 0)
        try:
            blob = self._run.store.get(keys.rollout(key, peer), self._limit)
            reading = Reading(blob.tag, _digest(blob.data), len(blob.data))
            file = self._decoded(key, peer, blob.data)
        except FileNotFoundError:
            return Fetched(replace(reading, refused=GONE if tag else "not_a_file"), None)
        except ProtocolError as error:
            return Fetched(replace(reading, refused=error.reason), error.as_value())
        return self._whole(key, peer, file, reading)

    def _whole(self, key: RoundKey, peer: str, file: RolloutFile, reading: Reading) -> Fetched:
        sizes = [reading.size]

        def get(place: str, most: int) -> bytes:
            blob = self._run.store.get(place, most)
            sizes.append(len(blob.data))
            self._run.trust.check(blob.data, place)
            return blob.data

        limits = {"most_bytes": self._limit - reading.size, "most_groups": self._most_groups}
        try:
            whole = put_together(file, peer, key, get, **limits)
            groups = to_groups(whole, peer, key, origin_needed=self._origin_needed, with_tokens=self._keep_tokens)
        except ProtocolError as error:
            may_come = file.earlier and error.reason in MAY_COME_YET
            tag = "" if may_come else reading.tag  # then it is read again, whatever its own tag
            refused = Reading(tag, reading.digest, sum(sizes), refused=error.reason)
            return Fetched(refused, error.as_value())
        read = replace(reading, size=sum(sizes))
        return Fetched(
            read, PeersFile(groups, to_claims(whole), file.timestamp, read.size, named_by(file), file.mixture)
        )

    def _decoded(self, key: RoundKey, peer: str, data: bytes) -> RolloutFile:
        """Decodes a file by its form, once its signature is what this node asks for. Raises ProtocolError: as
        Trust.check, decode."""
        place = keys.rollout(key, peer)
        where = self._run.store.describe(place)
        self._run.trust.check(data, place)
        file = decode(data, RolloutFile, where)
        if not math.isfinite(file.timestamp):
            raise ProtocolError("malformed", f"{where} has no finite timestamp")
        return file

    def early(self, key: RoundKey, peer: str, slot: int) -> EarlyGroup | None:
        """Returns a group that is there before the file that names it; None: it is not. Raises ProtocolError,
        StoreError."""
        place = keys.group_file(key, peer, slot)
        try:
            data = self._run.get_checked(place, self._limit).data
        except FileNotFoundError:
            return None
        file = one_group(data, peer, key, slot)
        groups = to_groups(file, peer, key, origin_needed=self._origin_needed, with_tokens=self._keep_tokens)
        return EarlyGroup(groups[0], to_claims(file)[0], digest(data), len(data))

    def read_again(self, key: RoundKey, peer: str, before: Reading) -> Reading | None:
        """Returns a file whose tag is another one by now, as it is to be known from now on; None: its content is
        another one.

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
        """Returns the file as people find it."""
        return self._run.store.describe(keys.rollout(key, peer))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
