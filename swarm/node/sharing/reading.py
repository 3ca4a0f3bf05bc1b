"""What does a peer's rollout file say, and is it still what it said when it was read?

All of it blocks, on files of strangers, and belongs into a thread.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from swarm.errors import ProtocolError
from swarm.store.folder.fetch import read_bounded
from swarm.types import RolloutGroup, RoundKey
from swarm.wire.codec import Claims, decode, to_claims, to_groups
from swarm.wire.layout import Layout, split_at_experiment
from swarm.wire.messages import RolloutFile
from swarm.wire.trust import Trust


class Stamp(NamedTuple):
    """By which a file is seen to be another one without reading it."""

    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True)
class Reading:
    """One file, as it was when it was read."""

    path: Path
    stamp: Stamp
    digest: bytes
    """Of its bytes."""
    again: int = 0
    """How often it was read again because its stamp had changed."""


class PeersFile(NamedTuple):
    """What it holds."""

    groups: list[RolloutGroup]
    claims: list[Claims]
    """One per group."""
    timestamp: float
    """When it was published, by the peer's clock."""
    size: int
    """Bytes."""


MOST_AGAIN = 3
"""Times that an unchanged file is read again, because somebody touched it, before it is left alone."""


def read_bytes(path: Path, limit: int) -> tuple[bytes, Reading]:
    """A file and how to know it again. Raises as read_bounded does."""
    stamp = stamp_of(path)  # before the bytes: what is written in between is found as a change afterwards
    data = read_bounded(path, limit)
    return data, Reading(path, stamp, _digest(data))


def peers_file(
    data: bytes, layout: Layout, peer: str, key: RoundKey, *, origin_needed: bool, keep_tokens: bool
) -> PeersFile:
    """What the bytes of a peer's file for one stage say, once its signature is what this node asks for.

    Args:
        keep_tokens: keep token ids and log-probs, which a node that does not weigh by them need not hold in memory.

    Raises:
        ProtocolError: as Trust.check, decode and to_groups do.
    """
    path = layout.rollout_file(key, peer)
    layout.trust.check(data, layout.key(path), peer)
    file = decode(data, RolloutFile, str(path))
    if not math.isfinite(file.timestamp):
        raise ProtocolError("malformed", f"{path} has no finite timestamp")
    groups = to_groups(file, peer, key, origin_needed=origin_needed, with_tokens=keep_tokens)
    return PeersFile(groups, to_claims(file), file.timestamp, len(data))


def changed(readings: Sequence[Reading], limit: int, trust: Trust) -> tuple[list[Reading], list[Reading]]:
    """Look at files again.

    Returns:
        Those whose content is another one by now; and those that were only touched, or replaced by somebody who could
        not sign for their author, as they are to be known from now on. One that is gone, or is no regular file any
        longer, cannot be read and so is in neither.
    """
    others, touched = [], []
    for reading in readings:
        try:
            if stamp_of(reading.path) == reading.stamp:
                continue
            data, now = read_bytes(reading.path, limit)
        except (FileNotFoundError, ProtocolError):
            continue
        if now.digest != reading.digest and _is_its_authors(data, reading.path, trust):
            others.append(reading)
        else:
            touched.append(replace(reading, stamp=now.stamp, again=reading.again + 1))
    return others, touched


def _is_its_authors(data: bytes, path: Path, trust: Trust) -> bool:
    try:
        trust.check(data, "/".join(split_at_experiment(path)[1]), path.stem)
    except ProtocolError:
        return False
    return True


def stamp_of(path: Path) -> Stamp:
    """Raises FileNotFoundError, or ProtocolError (`unreadable`)."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ProtocolError("unreadable", f"{path}: {error.strerror or error}") from None
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
