"""The contract of a shared place, which opens, lists, moves and removes experiments; swarm.store.place finds one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from swarm.errors import ExperimentError, StoreError
from swarm.spelling import did_you_mean, named
from swarm.store.base import Store
from swarm.store.folder.beneath import EXPERIMENTS
from swarm.store.health import Health
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.trust import TRUSTING, Trust

if TYPE_CHECKING:
    from swarm.store.replication import Replication


class Place(ABC):
    KIND = "a folder"
    """What it is, where it is said that it cannot do something."""

    @property
    def member(self) -> str:
        """Returns this machine's name, where each machine has one and its nodes bear it; otherwise empty."""
        return ""

    def refuse_node(self, node_id: str, role: str) -> None:  # noqa: B027 - most places take any
        """See that a node of this name and role may write here from this machine. Raises ConfigError."""

    def replication(self, name: str) -> Replication | None:
        """Returns how far what members wrote has come to the others, and how late, by an experiment's heartbeats; None
        where all see one and the same."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Returns the place's name as people find it; for messages alone."""

    @abstractmethod
    def problem(self) -> str:
        """Returns why no node could write here, as far as that shows without writing; empty if one could."""

    @abstractmethod
    def experiments(self) -> list[str]:
        """Returns names of the experiments, sorted. Raises StoreError: they cannot be listed."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Tells whether there is an experiment of that name. Raises StoreError: nobody can tell."""

    def is_link(self, name: str) -> bool:
        """An experiment that is a link may lead anywhere. Raises StoreError: nobody can tell."""
        return False

    def refuse_link(self, name: str) -> None:  # noqa: B027 - most places have no links
        """See that an experiment is no link: what lies elsewhere is not this place's. Raises StoreError."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete an experiment, and what is archived of it; links in it are removed, and not followed.

        Raises:
            StoreError: not all of it went.
        """

    @abstractmethod
    def beside(self, folder: str, writer: str | None = None) -> Store:
        """Opens what lies in the place beside its experiments, such as `studies/mine`; it need not be there."""

    def alone(self, folder: str, writer: str) -> AbstractContextManager[None]:
        """Be the one process that works in a folder beside the experiments, for the block; the lock goes with it.

        Raises:
            StoreError: another one does, or this place has no such lock.
        """
        raise self._cannot("keep processes apart that run one study", "run studies in a folder of one machine")

    def move(self, name: str, folder: str) -> None:
        """Move an experiment, as it is, to an empty place beside the experiments. Raises StoreError."""
        raise self._cannot(f"move {name} at once", "run studies in a folder of one machine")

    def _cannot(self, what: str, instead: str) -> StoreError:
        return StoreError(f"{self.describe()} is {self.KIND} and cannot {what}: {instead}")

    @abstractmethod
    def health(self, name: str) -> AbstractContextManager[Health]:
        """Opens, for the block, what measures the place and an experiment, whether they are there yet or not.

        Raises:
            StoreError: this place cannot be measured.
        """

    def store(self, name: str, writer: str | None) -> Store:
        return self.beside(f"{EXPERIMENTS}/{name}", writer)

    def open(self, name: str, writer: str | None = None, trust: Trust = TRUSTING) -> Run:
        """Returns an experiment: for a writer, there or not; to read alone, one that is there.

        Raises:
            ExperimentError: there is none to read; says which there are.
            StoreError: it is a link, which may lead anywhere.
        """
        if writer is None:
            self.require(name)
        self.refuse_link(name)
        return Run(name, self.store(name, writer), trust, self.beside(keys.archive(name), writer))

    def require(self, name: str) -> None:
        """See that there is an experiment of that name.

        Raises:
            ExperimentError: there is none; says which there are.
        """
        if not self.has(name):
            raise ExperimentError(self.without(name, "; name one with --experiment, and --path"))

    def without(self, name: str, advice: str = "") -> str:
        """Returns the sentence that there is no such experiment, which there are, what to do, which may be meant."""
        there = self.experiments()
        known = f"there {'is' if len(there) == 1 else 'are'} {named(there)}" if there else "there is none at all"
        return f"no experiment {name!r} in {self.describe()}: {known}{advice}{did_you_mean(name, there)}"
