"""A rollout file whose groups were published before it, one by one: its parts, put together again.

    rollouts/round_R/parts_S/{node}@{slot}.json   a RolloutFile with one group, never changed
    rollouts/round_R/stage_S/{node}.json          the last: no group, but the SHA-256 of each part

The file is what counts: a part that it does not name is nothing, and one that is not what it names refuses the whole.
So whoever reads the two takes the very groups that he would find in one file, or none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import msgspec
from msgspec import UNSET

from swarm.errors import ProtocolError
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import MOST_BRACKETS, MOST_GROUPS, brackets, decode, slot_of
from swarm.wire.messages import PolicyInfo, RolloutFile

Get = Callable[[str, int], bytes]
"""Gives the bytes at a key, of so many at most; raises FileNotFoundError, and ProtocolError for what is refused."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def digest(data: bytes) -> str:
    """As a file names a part of it by."""
    return hashlib.sha256(data).hexdigest()


def parts_of(file: RolloutFile, most: int = MOST_GROUPS) -> dict[int, str]:
    """Slot -> SHA-256 of the parts that a file names, in order; empty for one that holds its groups itself.

    Raises:
        ProtocolError: `malformed`, or `oversized` for more than `most`.
    """
    if file.parts is UNSET:
        return {}
    if len(file.parts) > most:
        raise ProtocolError("oversized", f"expected at most {most} parts, got {len(file.parts)}")
    if file.rollouts:
        raise ProtocolError("malformed", "it holds groups and names parts, expected one of the two")
    if odd := next((sha for sha in file.parts.values() if not _SHA256.fullmatch(sha)), None):
        raise ProtocolError("malformed", f"expected the SHA-256 of a part in hexadecimal, got {odd[:80]!r}")
    return {slot: file.parts[str(slot)] for slot in sorted(map(slot_of, file.parts))}


def put_together(
    file: RolloutFile, node: str, key: RoundKey, get: Get, *, most_bytes: int, most_parts: int = MOST_GROUPS
) -> RolloutFile:
    """The file with the groups of its parts, which are read; one without parts is given back as it is. Blocking.

    Args:
        most_bytes: of all parts together.

    Raises:
        ProtocolError: `missing_part`, `other_part`, and as parts_of, part_file and `get`.
    """
    named = parts_of(file, most_parts)
    if not named:
        return file
    whole = msgspec.structs.replace(file, rollouts={}, groups={}, parts=UNSET)
    opened = 0
    for slot, expected in named.items():
        place = keys.part(key, node, slot)
        try:
            data = get(place, most_bytes)
        except FileNotFoundError:
            raise ProtocolError("missing_part", f"{place} is not there, which its file names") from None
        if (got := digest(data)) != expected:
            raise ProtocolError("other_part", f"{place} is not what its file names: SHA-256 {got}, not {expected}")
        most_bytes, opened = most_bytes - len(data), opened + brackets(data)
        if opened > MOST_BRACKETS:
            raise ProtocolError("oversized", f"the parts have {opened} brackets, the limit is {MOST_BRACKETS}")
        _add(whole, part_file(data, node, key, slot), slot)
    return whole


def part_file(data: bytes, node: str, key: RoundKey, slot: int) -> RolloutFile:
    """One part by its form. Raises ProtocolError: as decode, `misplaced`, and `malformed` if it is not that group."""
    place = keys.part(key, node, slot)
    part = decode(data, RolloutFile, place)
    if (part.peer_id, part.round, part.stage) != (node, *key):
        raise ProtocolError("misplaced", f"{place} says {part.peer_id!r}, round {part.round}, stage {part.stage}")
    if part.rollouts.keys() != {str(slot)}:
        raise ProtocolError("malformed", f"{place} holds groups {sorted(part.rollouts)[:8]}, expected {slot} alone")
    return part


def _add(whole: RolloutFile, part: RolloutFile, slot: int) -> None:
    if _sampling(part.policy) != _sampling(whole.policy):
        raise ProtocolError("other_part", f"part {slot} is of another policy than its file says")
    whole.rollouts[str(slot)] = part.rollouts[str(slot)]
    if str(slot) in part.groups:
        whole.groups[str(slot)] = part.groups[str(slot)]


def _sampling(policy: PolicyInfo) -> tuple[object, ...]:
    return policy.model, policy.tokenizer, policy.temperature
