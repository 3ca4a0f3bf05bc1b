"""Knows who is a member of a replicated folder, and so in whose subtree a key is looked for.

A member is a machine with one device of Syncthing. It owns the nodes that bear its name: the member `lab` owns `lab`,
`lab-0`, `lab-coordinator`. The host, who invited the others, also owns what belongs to no node: the clock, the
experiment's file, the judge's and the examiner's. All that is this machine's own record, which an invitation begins and
its user's commands or the host's list extend; no subtree says for itself whose it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from swarm import forms
from swarm.config import JUDGE
from swarm.errors import StoreError
from swarm.harmless import quoted
from swarm.store.place import REPLICATED
from swarm.wire import keys

RECORD = REPLICATED
"""This machine's own, at the top of the folder."""
MOST_MEMBERS = 64
LARGEST_RECORD = 1 << 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}")
"""A member's: without a hyphen, for what follows one in a node's name is the node's."""
RESERVED = ("experiments", "studies", "archives", JUDGE)
DEVICE = re.compile(r"[A-Z2-7]{7}(-[A-Z2-7]{7}){7}")
"""A device of Syncthing: a digest of its certificate, and no secret."""
ADDRESS = re.compile(r"dynamic|(tcp|tcp4|tcp6|quic|quic4|quic6|relay)://[A-Za-z0-9.:\[\]_-]{1,255}")
LOCAL = (keys.CHECKPOINTS, keys.COMPLETIONS, keys.DRAFTS)
"""What nobody but its own node reads, and is not replicated."""
OF_THE_TOOL = re.compile(r"\.st(folder|versions|ignore)|\.syncthing\.|~syncthing~|.*\.sync-conflict-", re.DOTALL)
"""How names begin that Syncthing makes: its markers, its half-received files, and copies of what was in conflict."""
MOST_ADDRESSES = 8


class Member(msgspec.Struct, frozen=True):
    """One device."""

    device: str
    addresses: tuple[str, ...] = ("dynamic",)
    """Where it is reached; `dynamic`: as Syncthing finds out."""


class Membership(msgspec.Struct, frozen=True):
    """All members, as one machine knows them."""

    place: str
    """Random, the same for all members."""
    host: str
    own: str
    """The member that this machine is."""
    members: dict[str, Member]
    schema_version: int = 1

    def with_member(self, name: str, member: Member) -> Membership:
        """One more. Raises StoreError: another one has that name or device, or there are too many."""
        check_name(name)
        check_member(name, member)
        there = self.members.get(name)
        if there is not None and there.device != member.device:
            raise StoreError(
                f"the member {name} is the device {there.device} here, and not {member.device}: let a new device take "
                "a new name"
            )
        for other, known in self.members.items():
            if other != name and (other.casefold() == name.casefold() or known.device == member.device):
                raise StoreError(f"the member {name} has the name, but for its case, or the device of {other}")
        members = self.members | {name: member}
        if len(members) > MOST_MEMBERS:
            raise StoreError(f"a replicated folder has at most {MOST_MEMBERS} members")
        return msgspec.structs.replace(self, members=members)

    def owner_of(self, key: str) -> str | None:
        """Returns the member whose subtree holds a key, or all that is below it; None where several do, or nobody."""
        owner = _owner_of(key)
        if owner is None:
            return None
        if key.startswith(f"{keys.DRAFTS}/"):
            return self.own  # whatever the command or node is called
        member = self.host if owner.startswith("@") or owner == JUDGE else member_of(owner)
        return member if member in self.members else None

    def subtrees_of(self, key: str) -> list[str]:
        """Returns the members in whose subtrees a key, or keys below it, may lie.

        Checkpoints, and what a node keeps for itself, are not replicated.
        """
        parts = key.split("/")
        if any(OF_THE_TOOL.match(name) for name in parts):
            return []
        here = [self.own] if parts[0] in LOCAL else list(self.members)
        if _owner_of(key) is None:
            return here
        owner = self.owner_of(key)
        return [owner] if owner in here else []


def _owner_of(key: str) -> str | None:
    """Returns the owner of a key, or of all that is below a prefix."""
    if "/" not in key and "." in key[1:]:
        return keys.ANYBODY  # at the top of an experiment, such as a plot
    return keys.owner_of(key) or keys.owner_of(f"{key}/~")  # no node's name


def member_of(node: str) -> str:
    """Returns the member whose node this is, if it is one."""
    return node.partition("-")[0]


def check_name(name: str) -> None:
    """Raises StoreError: it is no member's name."""
    if not NAME.fullmatch(name) or name.casefold() in RESERVED:
        raise StoreError(
            f"{quoted(name)} is no name of a member: expected letters, digits and `_`, at most 32, no hyphen (nodes of "
            f"`lab` are `lab` and `lab-...`), and none of {', '.join(RESERVED)}"
        )


def check_member(name: str, member: Member) -> None:
    """Raises StoreError: its device or one of its addresses is none."""
    if not DEVICE.fullmatch(member.device):
        raise StoreError(
            f"the member {name} has no device of Syncthing: expected 8 groups of 7 letters and digits, got "
            f"{quoted(member.device)}"
        )
    if not 0 < len(member.addresses) <= MOST_ADDRESSES or not all(map(ADDRESS.fullmatch, member.addresses)):
        raise StoreError(
            f"the member {name} has no address of Syncthing: expected `dynamic` or such as tcp://192.0.2.1:22000, "
            f"got {quoted(', '.join(member.addresses))}"
        )


def decode(data: bytes, where: str) -> Membership:
    """Raises StoreError: it is none."""
    try:
        found = forms.decode(data, Membership)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StoreError(f"{where} does not say who is a member: {error}") from None
    checked = msgspec.structs.replace(found, members={})
    for name, member in found.members.items():
        checked = checked.with_member(name, member)
    if not {found.own, found.host} <= checked.members.keys():
        raise StoreError(f"{where} does not say who is a member: its host, or this machine, is none")
    return checked


class MembersRecord:
    """This machine's record of the members, read again whenever it is another file."""

    def __init__(self, path: Path) -> None:
        self._file = path / RECORD
        self._version: tuple[int, int] | None = None
        self._last: Membership | None = None

    def read(self) -> Membership:
        """Reads who is a member now. Raises StoreError: the record is gone, or is none."""
        try:
            found = os.stat(self._file)
            if self._last is None or self._version != (found.st_ino, found.st_mtime_ns):
                with open(self._file, "rb") as file:
                    self._last = decode(file.read(LARGEST_RECORD), str(self._file))
                self._version = (found.st_ino, found.st_mtime_ns)
        except OSError as error:
            raise StoreError(f"{self._file} cannot be read: {error.strerror or error}") from None
        return self._last
