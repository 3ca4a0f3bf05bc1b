"""What has to hold of cleaning up: what goes is old, nobody needs it to redo its rounds, and an archive has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.errors import ProtocolError
from swarm.records.archives import LARGEST_FILE, Archive
from swarm.records.listing import saved_rounds
from swarm.records.retention import LEAST_KEPT
from swarm.store.run import Run
from swarm.wire import keys
from tests.simulation.plan import ARCHIVE, EXPERIMENT
from tests.simulation.watched_store import Below

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.laws import Laws
    from tests.simulation.world import World


_OF_WHAT_IS_NEEDED = ("vandals", "obstructions", "claims", "beating_claims", "crowds")
"""Strangers who put away what a dead worker has said that it needs."""


class CleaningLaws:
    """Of one world."""

    def __init__(self, world: World, laws: Laws) -> None:
        self._world = world
        self._laws = laws
        memory = world.memory.open()
        self._run = Run(EXPERIMENT, memory, archive=Below(memory, ARCHIVE))  # type: ignore[arg-type]
        self._removed: set[str] = set()
        """Keys and prefixes."""
        self._overwritten: set[str] = set()

    def removes(self, host: Host, key: str) -> None:
        """A host takes away what is not its own: a file, or all below a prefix."""
        round_ = keys.round_of(key.split("/")[1])
        if not self._world.plan.cleanup or round_ is None:
            raise self._laws.broken(f"it removes {key}", host.name)
        self._world.injected["cleaned"] += 1
        lived = [row.round for row in self._laws.rows_of(host.name)]
        if sum(later > round_ for later in lived) < LEAST_KEPT:
            raise self._laws.broken(f"it removes {key}, having lived through {lived}", host.name)
        if self._world.plan.cleanup != "archive" or not key.startswith(keys.ROLLOUTS):
            self._nobody_redoes(host, key, round_)  # else it finds them in the archive
        if key.startswith(keys.ROLLOUTS):
            self._is_archived(host, key)
        self._removed.add(key)

    def _nobody_redoes(self, host: Host, key: str, round_: int) -> None:
        """No worker that comes back would read it: by its own rows, and the checkpoint that it has."""
        if any(self._world.injected[kind] for kind in _OF_WHAT_IS_NEEDED):
            return
        saved = saved_rounds(self._run)
        for worker in self._world.workers:
            newest = max(saved.get(worker.name, [0]))
            for row in self._laws.rows_of(worker.name):
                named = {int(name.split("/")[1]) for name in row.trained_on if key.startswith(keys.ROLLOUTS)}
                named.add(row.round)
                if row.round >= newest and round_ in named:
                    raise self._laws.broken(
                        f"it removes {key}, which {worker.name} needs to redo {row.round}", host.name
                    )

    def _is_archived(self, host: Host, key: str) -> None:
        """But for what a stranger has written over already."""
        for published, data in self._laws.acknowledged_below(key):
            there = self._there(published)
            if there != data or published in self._world.vandalised:  # a partition may show it what that has put
                self._overwritten.add(published)
            elif self._world.plan.cleanup == "archive" and not self._in_archive(published, data):
                raise self._laws.broken(f"it removes {published} before it is archived", host.name)

    def may_be_gone(self, key: str, data: bytes) -> bool:
        """An acknowledged file that is not in its place any more was cleaned up."""
        if self._world.plan.cleanup == "archive":
            return self._in_archive(key, data) or key in self._overwritten
        return self.has_removed(key)

    def has_removed(self, key: str) -> bool:
        """It, or all below a prefix of it, was cleaned up at some time."""
        return any(f"{key}/".startswith(f"{removed}/") for removed in self._removed)

    def _there(self, key: str) -> bytes | None:
        try:
            return self._run.store.get(key, LARGEST_FILE).data
        except (FileNotFoundError, ProtocolError):  # something else stands there
            return None

    def _in_archive(self, key: str, data: bytes) -> bool:
        archive, named = Archive(self._run), keys.published_in(key)
        return named is not None and any(
            archive.read(part).get(key) == data for part in archive.of_round(named[0].round)
        )
