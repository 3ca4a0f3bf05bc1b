"""Answers what the core asks of this plugin (`swarm.store.place.ReplicatedPlaces`); the rest is imported then."""

from __future__ import annotations

from pathlib import Path

from swarm.store.shared_place import Place


def open_place(path: Path) -> Place:
    """Returns a replicated folder as a place."""
    from swarm.plugins.syncthing.place import ReplicatedPlace

    return ReplicatedPlace(path)


def become_member(place: str, invitation: str, own: str | None, address: tuple[str, ...]) -> None:
    """Make this machine a member of a replicated folder, by what `swarm invite` printed on another one."""
    from swarm.plugins.syncthing import inviting

    inviting.become_member(place, invitation, own, address)
