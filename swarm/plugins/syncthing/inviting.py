"""`swarm invite`, and how `swarm join --invitation` becomes a member of a replicated folder.

    host     swarm invite ~/swarm --as lab                  ─▶ the invitation, a text without a secret
    joiner   swarm join ~/swarm --as ben --invitation ...   ─▶ the command that lets it in; waits
    host     swarm invite ~/swarm ben --device ...          ─▶ ben is a member, and everybody learns of it

Nobody proves anything but its device, whose id is a digest of its certificate: the host tells its own machine which
device bears which name, and the joiner the same of the host. So both ids have to come from the people, not from whoever
knocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from, wait_for
from swarm.cli.say import say, warn
from swarm.config.place import is_url
from swarm.errors import ConfigError, StoreError
from swarm.plugins.syncthing import setting_up
from swarm.plugins.syncthing.membership import Member, Membership, MembersRecord
from swarm.plugins.syncthing.state import knocking, replication
from swarm.plugins.syncthing.syncthing import Syncthing
from swarm.store.place import is_replicated
from swarm.store.replication import Replication
from swarm.systems import require_for
from swarm.views.replication import progress

_AS = "Name of this machine as a member: letters, digits and `_`. Its nodes are called that, or that and `-more`."
_ADDRESS = (
    "Where Syncthing is reached, such as tcp://192.0.2.1:22000; `dynamic`, as it finds out by itself, if not given."
)


def invite(
    place: Annotated[str, Parameter(help="The replicated folder, or a new one.")],
    name: Annotated[str | None, Parameter(help="Who is let in; none: the invitation is printed.")] = None,
    /,
    *,
    device: Annotated[str | None, Parameter(help="Its device of Syncthing, as its user told you.")] = None,
    address: Annotated[tuple[str, ...], Parameter("--address", help=_ADDRESS)] = (),
    own: Annotated[str | None, Parameter("--as", help=_AS)] = None,
) -> None:
    """Make a folder that Syncthing replicates, and let other machines in.

    Without a name: begin it, where it is not there yet, and print the invitation. With a name and a device: let that
    device in. Syncthing has to run on this machine.
    """
    require_for("`swarm invite`")
    path = _folder(place)
    syncthing = Syncthing.found(os.environ)
    members = _record(path, own, syncthing, address if name is None else ())
    if (name is None) != (device is None):
        raise ConfigError("letting somebody in takes both: swarm invite PLACE NAME --device ID")
    if members.host != members.own:
        raise StoreError(f"{path} is {members.host}'s, and only there is anybody let in: this machine is {members.own}")
    if name is not None and device is not None:
        members = members.with_member(name, Member(device.strip().upper(), address or ("dynamic",)))
    setting_up.apply(path, members, syncthing)
    if name is not None:
        say(f"{name} is a member of {path} now, with {', '.join(sorted(members.members))}")
    else:
        _tell_invitation(path, members, syncthing)


def _record(path: Path, own: str | None, syncthing: Syncthing, address: tuple[str, ...]) -> Membership:
    if is_replicated(path):
        members = MembersRecord(path).read()
        if own not in (None, members.own):
            raise ConfigError(f"{path} knows this machine as {members.own}, got --as {own}")
        me = members.members[members.own]
        return members.with_member(members.own, Member(me.device, address or me.addresses))
    if own is None:
        raise ConfigError(f"{path} is no replicated folder yet; to begin one, name this machine with --as")
    return setting_up.begin(path, own, Member(syncthing.device(), address or ("dynamic",)))


def _tell_invitation(path: Path, members: Membership, syncthing: Syncthing) -> None:
    say(f"{path} is a replicated folder, of which this machine is the host, {members.own}")
    say("the invitation, which holds no secret, for each who is to join:\n")
    say(f"  swarm join PATH --as NAME --invitation {setting_up.write_invitation(members)}\n")
    say(f"each tells you the command that lets it in; nodes here are called {members.own}, or {members.own}-more")
    for device in knocking(members, syncthing):
        say(f"a device knocks: {device}; if that is what somebody told you: swarm invite {path} NAME --device {device}")


def become_member(place: str, invitation: str, own: str | None, address: tuple[str, ...]) -> None:
    """Set this machine up, say what the host is to do, and wait until all that is there has come.

    Raises:
        StoreError: the invitation is none, or the host has let another device in by this name.
    """
    if own is None:
        raise ConfigError("name this machine with --as: letters, digits and `_`, another name than the others'")
    path, syncthing = _folder(place), Syncthing.found(os.environ)
    me = Member(syncthing.device(), address or ("dynamic",))
    members = setting_up.joined(path, invitation, own, me)
    setting_up.apply(path, members, syncthing)
    told = "".join(f" --address {each}" for each in address)
    warn(f"{members.host} lets this machine in with: swarm invite PATH {own} --device {me.device}{told}")
    wait_for(lambda: _is_let_in(path, own), f"{members.host} to let {own} in")
    setting_up.follow(path)
    warn(f"this machine is the member {own}, of {', '.join(sorted(MembersRecord(path).read().members))}")
    _await_first_sync(path)


def _is_let_in(path: Path, own: str) -> bool:
    told = setting_up.listed(path, MembersRecord(path).read())
    return told is not None and own in told.members


def _await_first_sync(path: Path) -> None:
    """Waits until all that the connected members wrote is here; says how far it is whenever that changes."""
    said = ""
    for now in _until_complete(path):
        if (line := progress(now)) != said:
            warn(said := line)


def _until_complete(path: Path) -> Iterator[Replication]:
    def look() -> Replication | None:
        seen.append(now := replication(path, MembersRecord(path).read()))
        return now if not now.problems and not any(peer.to_come for peer in now.peers if peer.connected) else None

    seen: list[Replication] = []
    while wait_for(look, "the first synchronisation", patience=2.0) is None:
        yield seen[-1]
    yield seen[-1]


def _folder(place: str) -> Path:
    if is_url(place):
        raise ConfigError(
            f"a replicated folder is a folder on this machine, got {settings_from(CommonFlags(path=place)).place}"
        )
    return Path(settings_from(CommonFlags(path=place)).place)
