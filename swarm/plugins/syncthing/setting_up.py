"""Decides what Syncthing is to do on this machine for a replicated folder, and who decides it: this machine's own
record.

    invitation, `swarm invite` ─▶ record ─▶ wanted ─▶ Syncthing's devices and folders
    the host's list, followed  ──┘

Each member's subtree is a folder of Syncthing's that its owner sends to all, and each other receives from its owner
alone. That others receive only is not enough: of a folder that is shared with a third, the third's changes are taken
for its owner's. So nobody relays for anybody, no device introduces others, and each pair of members connects.

The host's list is taken for new members and new addresses. It gives no name to another device: who was known stays.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swarm.errors import ProtocolError, StoreError
from swarm.plugins.syncthing.membership import LARGEST_RECORD, RECORD, Member, Membership, MembersRecord, decode
from swarm.plugins.syncthing.syncthing import ANOTHER, Syncthing
from swarm.store.folder.store import FolderStore
from swarm.store.place import is_replicated
from swarm.wire import keys

LIST = "members.json"
"""In the host's subtree: what the others follow."""
IGNORED = ".stignore"
LEFT_OUT = "".join(
    [
        *(f"/experiments/*/{name}\n" for name in (keys.DRAFTS, keys.COMPLETIONS, keys.CHECKPOINTS)),
        f"!/experiments\n!/{LIST}\n*\n",
    ]
)
"""What is not replicated; of what a stranger puts beside the experiments, nothing comes."""
DELAY = 1
"""Seconds for which Syncthing gathers changes: the least that all of its versions take."""
RESCANNED_EVERY = 60
"""Seconds; should an event of the file system be lost."""
_FOLLOWING: set[str] = set()
"""What this process has said about lists that it could not follow: once each."""


class WantedSettings(NamedTuple):
    """Says what Syncthing is to be told: name -> settings."""

    devices: Mapping[str, Mapping[str, Any]]
    folders: Mapping[str, Mapping[str, Any]]


def folder_id(members: Membership, member: str) -> str:
    """Returns the id of the folder that Syncthing makes of a member's subtree; the same on all machines."""
    return f"swarm-{members.place}-{member}"


def wanted(path: Path, members: Membership) -> WantedSettings:
    """Returns all of it, from who is a member."""
    others = {name: member for name, member in members.members.items() if name != members.own}
    devices = {
        member.device: {
            "deviceID": member.device,
            "name": name,
            "addresses": list(member.addresses),
            "compression": "always",
        }
        for name, member in others.items()
    }
    return WantedSettings(devices, {folder_id(members, name): _folder(path, members, name) for name in members.members})


def _folder(path: Path, members: Membership, name: str) -> dict[str, Any]:
    is_own = name == members.own
    shared_with = members.members if is_own else (members.own, name)
    return {
        "id": folder_id(members, name),
        "label": f"swarm {name}",
        "path": str(path / name),
        "type": "sendonly" if is_own else "receiveonly",
        "devices": [{"deviceID": members.members[each].device} for each in shared_with],
        "fsWatcherEnabled": True,
        "fsWatcherDelayS": DELAY,
        "rescanIntervalS": RESCANNED_EVERY,
        "ignorePerms": True,
        "maxConflicts": 0,
        "paused": False,
    }


def differences(asked: WantedSettings, syncthing: Syncthing) -> list[str]:
    """Returns what Syncthing does otherwise, a sentence each: by it another could write into a member's subtree, or
    nobody."""
    found = []
    for name, settings in asked.folders.items():
        there = syncthing.config_of("folder", name)
        if there is None:
            found.append(f"the folder {name} is missing")
            continue
        for key in ("type", "path", "paused"):
            if there.get(key) != settings[key]:
                found.append(f"the folder {name} has {key} {there.get(key)!r}, expected {settings[key]!r}")
        if more := _devices(there) - _devices(settings):
            found.append(f"the folder {name} is shared with {', '.join(sorted(more))}, expected its members alone")
        if fewer := _devices(settings) - _devices(there):
            found.append(f"the folder {name} is not shared with {', '.join(sorted(fewer))}")
    for name in asked.devices:
        there = syncthing.config_of("device", name)
        if there is None:
            found.append(f"the device {name} is missing")
        elif there.get("introducer") or there.get("autoAcceptFolders"):
            found.append(f"the device {name} introduces others or has its folders accepted: switch both off")
        elif there.get("paused"):
            found.append(f"the device {name} is paused")
    return found


class _Device(msgspec.Struct):
    deviceID: str  # noqa: N815 - Syncthing's name


def _devices(folder: Mapping[str, Any]) -> set[str]:
    """Raises StoreError: Syncthing names them otherwise."""
    try:
        return {each.deviceID for each in msgspec.convert(folder.get("devices", []), list[_Device])}
    except msgspec.ValidationError as error:
        raise StoreError(
            f"Syncthing names the devices of a folder otherwise than expected ({error}): {ANOTHER}"
        ) from None


def apply(path: Path, members: Membership, syncthing: Syncthing) -> None:
    """Make Syncthing do it, and record it: in this order, so that what failed is done again. Raises StoreError."""
    asked = wanted(path, members)
    for name, settings in asked.devices.items():
        syncthing.configure("device", name, {**settings, "introducer": False, "autoAcceptFolders": False})
    for member in members.members:
        _put(path / member, IGNORED, LEFT_OUT.encode())
    for name, settings in asked.folders.items():
        syncthing.configure("folder", name, settings)
    if members.host == members.own:
        _put(path / members.own, LIST, msgspec.json.encode(members))
    _put(path, RECORD, msgspec.json.encode(members))


def _put(folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    store = FolderStore(folder, f"record-{os.getpid()}")
    try:
        if store.get(name, LARGEST_RECORD).data == data:
            return
    except (FileNotFoundError, ProtocolError):
        pass
    store.put(name, data)


# ── how a record begins and grows ───────────────────────────────────────────────────────────────────────────────────
def begin(path: Path, own: str, me: Member) -> Membership:
    """Returns the record of a host. Raises StoreError: the name or device is none."""
    _refuse_ordinary(path)
    return Membership(secrets.token_hex(4), own, own, {}).with_member(own, me)


def joined(path: Path, text: str, own: str, me: Member) -> Membership:
    """Returns the record of who was invited, who knows the host and itself at first.

    Raises:
        StoreError: the text is no invitation, or of another place than the one that is here.
    """
    _refuse_ordinary(path)
    invited = read_invitation(text)
    members = Membership(invited.place, invited.host, own, {}).with_member(invited.host, invited.member)
    members = members.with_member(own, me)
    if not is_replicated(path):
        return members
    there = MembersRecord(path).read()
    if (there.place, there.host, there.own) != (members.place, members.host, own):
        raise StoreError(
            f"{path} is the member {there.own} of another replicated folder, that of {there.host}: name another one, "
            "or the same name as before with --as"
        )
    for name, member in members.members.items():
        there = there.with_member(name, member)
    return there


def _refuse_ordinary(path: Path) -> None:
    if os.path.isdir(path / "experiments"):
        raise StoreError(f"{path} is an ordinary folder with experiments: name one that is not there yet, or empty")


class Invitation(NamedTuple):
    """Tells whoever joins what they have to know; no secret is in it."""

    place: str
    host: str
    member: Member


def write_invitation(members: Membership) -> str:
    """Returns the text that the host sends to whoever is to join."""
    host = members.members[members.host]
    return "/".join(("swarm1", members.place, members.host, host.device, ",".join(host.addresses)))


def read_invitation(text: str) -> Invitation:
    """Raises StoreError: it is none."""
    parts = text.strip().split("/", 4)
    if len(parts) != 5 or parts[0] != "swarm1" or not (parts[1].isalnum() and len(parts[1]) <= 32):
        raise StoreError(
            "the invitation is none: expected the text that `swarm invite` printed, swarm1/.../.../.../..."
        )
    return Invitation(parts[1], parts[2], Member(parts[3], tuple(parts[4].split(","))))


def news(members: Membership, offered: bytes) -> Membership:
    """Returns the record with what is new in the host's list. Raises StoreError: the list is none, or gives a name
    away."""
    told = decode(offered, f"the list of {members.host}")
    if (told.place, told.host) != (members.place, members.host):
        raise StoreError(f"the list of {members.host} is of another replicated folder")
    for name, member in told.members.items():
        if name != members.own:  # where this machine is reached is its own to say
            members = members.with_member(name, member)
        elif member.device != members.members[name].device:
            raise StoreError(f"{members.host} has let another device in as {name}: join with another name, --as")
    return members


def listed(path: Path, members: Membership) -> Membership | None:
    """Returns the host's list as it came here; None: it did not. Raises StoreError: it is none."""
    try:
        offered = FolderStore(path / members.host).get(LIST, LARGEST_RECORD).data
    except (FileNotFoundError, ProtocolError):
        return None
    news(members, offered)
    return decode(offered, f"the list of {members.host}")


def _refuse_unknown(path: Path, members: Membership, syncthing: Syncthing) -> None:
    """See that Syncthing itself was told of this folder by its user's command.

    The record alone says nothing: in a folder that is shared in another way, anybody can put one.

    Raises:
        StoreError: it was not.
    """
    there = syncthing.config_of("folder", folder_id(members, members.own)) or {}
    if os.path.realpath(os.path.expanduser(str(there.get("path", "")))) != os.path.realpath(path / members.own):
        raise StoreError(
            f"Syncthing knows nothing of {path / members.own}, and is told of others by its user alone: if you made "
            f"this place, run `swarm invite {path}`, or `swarm join` with the invitation, once more; if not, take "
            f"{path / RECORD} away"
        )


def follow(path: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Take over who is new in the host's list. What fails is said once, and tried again at the next call."""
    from swarm.logs import get_logger  # here, for commands that only look start without it

    logger = get_logger(__name__)
    try:
        members = MembersRecord(path).read()
        if members.host == members.own:
            return
        offered = FolderStore(path / members.host).get(LIST, LARGEST_RECORD).data
        if (now := news(members, offered)) != members:
            syncthing = Syncthing.found(environ)
            _refuse_unknown(path, now, syncthing)
            apply(path, now, syncthing)
            logger.info("members.changed", members=sorted(now.members), new=sorted({*now.members} - {*members.members}))
    except FileNotFoundError:
        pass
    except (StoreError, ProtocolError, OSError) as error:
        if str(error) not in _FOLLOWING and len(_FOLLOWING) < 100:
            _FOLLOWING.add(str(error))
            logger.warning("members.not_followed", error=str(error))
