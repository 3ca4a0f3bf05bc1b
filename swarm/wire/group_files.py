"""Puts together what a node publishes of one stage: its rollout file, and groups that it published before it.

    rollouts/round_R/stage_S/{node}.{slot}.json   a RolloutFile with one group, if it was ready before the others
    rollouts/round_R/stage_S/{node}.json          the last: the other groups, and the SHA-256 of each file before it

All are of one form, and none ever changes. The last says how many there are: it alone is listed, waited for and counts.
A file of one group that it does not name is nothing, and one that is not what it names refuses the whole. So whoever
reads a node takes the very groups that he would find in one file, or none.
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
    """Returns the SHA-256, in hex, by which the last file names another one."""
    return hashlib.sha256(data).hexdigest()


def named_by(file: RolloutFile, most: int = MOST_GROUPS) -> dict[int, str]:
    """Slot -> SHA-256 of the files of single groups that a file names, in order.

    Raises:
        ProtocolError: `malformed`, or `oversized` for more than `most`.
    """
    named = file.earlier or {}
    if len(named) > most:
        raise ProtocolError("oversized", f"expected at most {most} files of one group, got {len(named)}")
    if odd := next((sha for sha in named.values() if not _SHA256.fullmatch(sha)), None):
        raise ProtocolError("malformed", f"expected the SHA-256 of a file in hexadecimal, got {odd[:80]!r}")
    if file.rollouts.keys() & named.keys():
        raise ProtocolError("malformed", "it holds groups and names others in their place, expected one of the two")
    return {slot: named[str(slot)] for slot in sorted(map(slot_of, named))}


def put_together(
    file: RolloutFile, node: str, key: RoundKey, get: Get, *, most_bytes: int, most_groups: int = MOST_GROUPS
) -> RolloutFile:
    """Returns the file with the groups that it names, which are read; one that names none is given back as it is.
    Blocking.

    Args:
        most_bytes: of all that is read together.

    Raises:
        ProtocolError: `missing_part`, `other_part`, and as named_by, one_group and `get`.
    """
    named = named_by(file, most_groups)
    if not named:
        return file
    whole = msgspec.structs.replace(file, rollouts=dict(file.rollouts), groups=dict(file.groups), earlier=UNSET)
    opened = 0
    for slot, expected in named.items():
        place = keys.group_file(key, node, slot)
        try:
            data = get(place, most_bytes)
        except FileNotFoundError:
            raise ProtocolError("missing_part", f"{place} is not there, which {node}.json names") from None
        if (got := digest(data)) != expected:
            raise ProtocolError("other_part", f"{place} is not what {node}.json names: SHA-256 {got}, not {expected}")
        most_bytes, opened = most_bytes - len(data), opened + brackets(data)
        if opened > MOST_BRACKETS:
            raise ProtocolError("oversized", f"the files have {opened} brackets, the limit is {MOST_BRACKETS}")
        _add(whole, one_group(data, node, key, slot), slot)
    return whole


def one_group(data: bytes, node: str, key: RoundKey, slot: int) -> RolloutFile:
    """Returns a file of one group. Raises ProtocolError: as decode, `misplaced`, and `malformed` if it is not that
    group."""
    place = keys.group_file(key, node, slot)
    file = decode(data, RolloutFile, place)
    if (file.peer_id, file.round, file.stage) != (node, *key):
        raise ProtocolError("misplaced", f"{place} says {file.peer_id!r}, round {file.round}, stage {file.stage}")
    if file.rollouts.keys() != {str(slot)}:
        raise ProtocolError("malformed", f"{place} holds groups {sorted(file.rollouts)[:8]}, expected {slot} alone")
    return file


def _add(whole: RolloutFile, one: RolloutFile, slot: int) -> None:
    if _sampling(one.policy) != _sampling(whole.policy):
        raise ProtocolError("other_part", f"group {slot} is of another policy than the last file says")
    whole.rollouts[str(slot)] = one.rollouts[str(slot)]
    if str(slot) in one.groups:
        whole.groups[str(slot)] = one.groups[str(slot)]


def _sampling(policy: PolicyInfo) -> tuple[object, ...]:
    return policy.model, policy.tokenizer, policy.temperature
