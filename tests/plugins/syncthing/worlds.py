"""Replicated places to try a store in."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from swarm.plugins.syncthing.membership import Member, Membership, MembersRecord
from swarm.plugins.syncthing.store import ReplicatedStore
from swarm.store.base import Store
from tests.conformance.worlds import Folder


class OfTheLab(Membership, frozen=True):
    """Every key is the member lab's: the checks let many nodes write, as those of one machine do."""

    def owner_of(self, key: str) -> str | None:
        folders = [part for part in key.split("/") if "." not in part]
        return None if key.split("/") == folders and folders[-1].startswith(("rollouts", "round_", "stage_")) else "lab"

    def subtrees_of(self, key: str) -> list[str]:
        return list(self.members) if not key or self.owner_of(key) is None else ["lab"]


class Replicated(Folder):
    """The subtrees of two members, of whom the lab writes."""

    def __init__(self, tmp: Path, undo: ExitStack) -> None:
        super().__init__(tmp, undo)
        self.path = tmp / "lab's machine"
        self.root = self.path / "lab" / "experiments" / "demo"
        (self.path / "eva").mkdir(parents=True)

    def open(self, writer: str | None = None) -> Store:
        return self.as_seen_by("lab", self.path, writer)

    def as_seen_by(self, own: str, path: Path, writer: str | None) -> Store:
        members = {name: Member("-".join([letter * 7] * 8)) for name, letter in (("lab", "L"), ("eva", "E"))}
        record = SimpleNamespace(read=lambda: OfTheLab("place", "lab", own, members))
        return ReplicatedStore(path, "demo", cast(MembersRecord, record), writer)


class ReplicatedFarAway(Replicated):
    """The same, read on the other member's machine, where what the lab wrote appears at once."""

    def __init__(self, tmp: Path, undo: ExitStack) -> None:
        super().__init__(tmp, undo)
        self._far = tmp / "eva's machine"
        (self._far / "eva").mkdir(parents=True)
        (self._far / "lab").symlink_to(self.path / "lab")

    def open(self, writer: str | None = None) -> Store:
        return super().open(writer) if writer else self.as_seen_by("eva", self._far, None)
