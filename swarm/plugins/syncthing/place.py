"""The experiments of a replicated folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from swarm.errors import ConfigError, StoreError
from swarm.plugins.syncthing.membership import MembersRecord, member_of
from swarm.plugins.syncthing.store import ReplicatedStore
from swarm.store.base import MOST_NAMES, Kind, Store
from swarm.store.folder.beneath import EXPERIMENTS
from swarm.store.folder.place import FolderPlace
from swarm.store.folder.store import FolderStore
from swarm.store.health import Health
from swarm.store.shared_place import Place

if TYPE_CHECKING:
    from swarm.store.replication import Replication


class ReplicatedPlace(Place):
    """One subtree per member in a folder."""

    KIND = "a replicated folder"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._record = MembersRecord(path)

    @property
    def member(self) -> str:
        return self._record.read().own

    def _own(self) -> FolderPlace:
        return FolderPlace(self._path / self.member)

    def describe(self) -> str:
        return str(self._path)

    def problem(self) -> str:
        try:
            return self._own().problem()
        except StoreError as error:
            return str(error)

    def refuse_node(self, node_id: str, role: str) -> None:
        members = self._record.read()
        if member_of(node_id) != (own := members.own):
            raise ConfigError(
                f"a node called {node_id} cannot work in {self._path}: this machine is the member {own} there. "
                f"Its nodes are called {own} or {own}-...: choose such a NODE_ID (--node-id)"
            )
        if role == "coordinator" and own != members.host:
            raise ConfigError(
                f"the clock of {self._path} is kept by its host, {members.host}, and this machine is {own}: start the "
                "coordinator there, and workers here (swarm join)"
            )

    def experiments(self) -> list[str]:
        """Returns the experiments of the host, for whoever begins one is the host."""
        there = FolderStore(self._path / self._record.read().host).list(EXPERIMENTS, limit=MOST_NAMES).entries
        return [entry.name for entry in there if entry.kind is Kind.PREFIX]

    def has(self, name: str) -> bool:
        found = FolderStore(self._path / self._record.read().host).stat(f"{EXPERIMENTS}/{name}")
        return found is not None and found.kind is Kind.PREFIX

    def refuse_link(self, name: str) -> None:
        self._own().refuse_link(name)

    def remove(self, name: str) -> None:
        members = self._record.read()
        own = self._own()
        if own.has(name):
            own.remove(name)
        others = (member for member in members.members if member != members.own)
        if left := [each for each in others if os.path.isdir(self._path / each / EXPERIMENTS / name)]:
            raise StoreError(
                f"what this machine wrote of {name} is gone from {self._path}; what {', '.join(left)} wrote is theirs "
                "to remove, each on their own machine"
            )

    def beside(self, folder: str, writer: str | None = None) -> Store:
        """Opens a folder in the own subtree; nothing there but experiments is replicated."""
        return self._own().beside(folder, writer)

    @contextmanager
    def health(self, name: str) -> Iterator[Health]:
        """Measures the own subtree: what this machine's disk does, and what lies there."""
        with self._own().health(name) as found:
            found.there = self.has(name)  # the host's, before this member has written anything
            yield found

    def store(self, name: str, writer: str | None) -> ReplicatedStore:
        return ReplicatedStore(self._path, name, self._record, writer, self._follow)

    def replication(self, name: str) -> Replication:
        from swarm.plugins.syncthing.state import replication  # here, for nodes start without it

        return replication(self._path, self._record.read(), name)

    def _follow(self) -> None:
        from swarm.plugins.syncthing.setting_up import follow  # here, for commands that only look start without it

        follow(self._path)
