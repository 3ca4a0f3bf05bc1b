"""Measures how far what each member wrote has come to the others, as Syncthing says it, and how late it comes.

The delay is measured without asking anybody: of a file that was received, Syncthing keeps the time at which its writer
wrote it, and the file system notes when it got its name here. Heartbeats are such files. Two clocks are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from swarm.errors import StoreError
from swarm.plugins.syncthing.membership import Membership, member_of
from swarm.plugins.syncthing.setting_up import differences, folder_id, wanted
from swarm.plugins.syncthing.syncthing import Syncthing
from swarm.store.folder.beneath import EXPERIMENTS, Within, stat_beneath
from swarm.store.folder.fetch import list_page
from swarm.store.replication import Peer, Replication
from swarm.wire import keys

MOST_BEATS = 64
"""Heartbeats of one member that are looked at."""


# what Syncthing answers, by its own names
class _Connection(msgspec.Struct):
    connected: bool = False


class _Connections(msgspec.Struct):
    connections: dict[str, _Connection] = {}


class _Seen(msgspec.Struct):
    lastSeen: str = ""  # noqa: N815


class _FolderStatus(msgspec.Struct):
    needBytes: int = 0  # noqa: N815


class _Completion(msgspec.Struct):
    completion: float = 0.0


def replication(
    path: Path, members: Membership, experiment: str = "", environ: Mapping[str, str] = os.environ
) -> Replication:
    """Ask Syncthing. What keeps it from answering is a problem among the others."""
    others = [name for name in members.members if name != members.own]
    try:
        syncthing = Syncthing.found(environ)
        late = delays(path, members, experiment) if experiment else {}
        peers = [
            msgspec.structs.replace(each, delay=late.get(each.member)) for each in _peers(members, others, syncthing)
        ]
        problems, waiting = differences(wanted(path, members), syncthing), knocking(members, syncthing)
    except StoreError as error:
        return Replication(members.own, members.host, [], [str(error)])
    return Replication(members.own, members.host, peers, problems, waiting)


def knocking(members: Membership, syncthing: Syncthing) -> list[str]:
    """Devices that want to connect, and are no members."""
    pending = syncthing.ask("cluster/pending/devices", dict[str, msgspec.Raw]) or {}
    return sorted({*pending} - {member.device for member in members.members.values()})


def _peers(members: Membership, others: Sequence[str], syncthing: Syncthing) -> list[Peer]:
    connections = (syncthing.ask("system/connections", _Connections) or _Connections()).connections
    seen = syncthing.ask("stats/device", dict[str, _Seen]) or {}
    return [_peer(members, name, connections, seen, syncthing) for name in others]


def _peer(
    members: Membership,
    name: str,
    connections: Mapping[str, _Connection],
    seen: Mapping[str, _Seen],
    syncthing: Syncthing,
) -> Peer:
    device = members.members[name].device
    connected = device in connections and connections[device].connected
    theirs = syncthing.ask("db/status", _FolderStatus, folder=folder_id(members, name)) or _FolderStatus()
    has = None
    if connected:
        asked = {"folder": folder_id(members, members.own), "device": device}
        has = (syncthing.ask("db/completion", _Completion, **asked) or _Completion()).completion / 100
    ago = None if connected or device not in seen else _seconds_since(seen[device].lastSeen)
    return Peer(name, connected, 0.0 if connected else ago, theirs.needBytes, has)


def _seconds_since(when: str) -> float | None:
    """Returns the seconds since a time; None for the beginning of time, which stands for never."""
    try:
        then = datetime.fromisoformat(when.replace("Z", "+00:00"))
    except ValueError:
        return None
    return max(0.0, (datetime.now(then.tzinfo) - then).total_seconds()) if then.year > 1970 else None


def delays(path: Path, members: Membership, experiment: str) -> dict[str, float]:
    """Member -> how late the newest heartbeats of its nodes came, the latest of them."""
    found: dict[str, float] = {}
    for member in members.members:
        if member != members.own:
            peers = Within(path / member, (EXPERIMENTS, experiment, keys.PEERS))
            late = [_late_by(peers / name) for name in _beats(peers, member)]
            if late:
                found[member] = max(late)
    return found


def _beats(peers: Within, member: str) -> Iterable[str]:
    try:
        entries = list_page(peers, "", MOST_BEATS, tags=False).entries
    except StoreError:
        return []
    return [entry.name for entry in entries if member_of(keys.node_of(entry.name) or "") == member]


def _late_by(file: Within) -> float:
    try:
        found = stat_beneath(file)
    except OSError:
        return 0.0
    return max(0.0, (found.st_ctime_ns - found.st_mtime_ns) / 1e9)
