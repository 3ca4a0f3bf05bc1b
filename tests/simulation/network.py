"""Who sees what of whom, and when: the faults of a place that is shared, drawn as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from swarm.wire import keys
from tests.doubles.faulty import Faults, Step, Version

if TYPE_CHECKING:
    from tests.simulation.world import World

STALE_VERSIONS = 5
"""How old a stale read can be."""


class Partition(NamedTuple):
    """From `start` until `end`, hosts inside and outside see nothing new of each other."""

    start: float
    end: float
    inside: frozenset[str]


class Network(Faults):
    """Of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.partitions: list[Partition] = []
        self._ready: dict[tuple[str, int], float] = {}
        """(reader, version) -> when it is there, where nothing cuts them off."""

    def sees(self, reader: str, version: Version) -> bool:
        world = self._world
        ready = self._ready.get((reader, version.number))
        if ready is None:
            ready = version.time + world.hosts[reader].delay + self._lateness(version.key)
            self._ready[reader, version.number] = ready
        return ready <= world.now and version.time <= self._reached(reader, version.writer)

    def _lateness(self, key: str) -> float:
        world, faults = self._world, self._world.faults
        lateness = 0.0
        if world.happens("reordered", faults.reordered):
            lateness += world.rng.uniform(0.0, 2.0)
        if key.startswith((keys.ROLLOUTS, keys.REWARDS)) and world.happens("late", faults.late):
            lateness += world.rng.uniform(1.0, 20.0)
        return lateness

    def _reached(self, reader: str, writer: str) -> float:
        """Up to which moment a reader has what a writer wrote."""
        reached = float("inf")
        for cut in self.partitions:
            if cut.start <= self._world.now < cut.end and (reader in cut.inside) != (writer in cut.inside):
                reached = min(reached, cut.start)
        return reached

    def connected_since(self, one: str, other: str) -> float:
        """Since when two hosts have seen each other without a break; now while they do not."""
        since, now = 0.0, self._world.now
        for cut in self.partitions:
            if cut.start <= now and (one in cut.inside) != (other in cut.inside):
                since = max(since, min(cut.end, now))
        return since

    def stale(self, reader: str, key: str) -> int:
        world = self._world
        if (key == keys.STATE or key.startswith(keys.PEERS)) and world.happens("stale_reads", world.faults.stale_reads):
            return world.rng.randrange(1, STALE_VERSIONS)
        return 0

    def reads(self, reader: str, key: str) -> None:
        self._world.hosts[reader].reads(key)

    def step(self, writer: str, key: str, step: Step) -> None:
        self._world.hosts[writer].step(key, step)

    def kept(self, version: Version) -> float:
        rng = self._world.rng
        if rng.random() < 0.5:
            return 1.0
        return rng.choice([0.0, 0.4, 0.9]) if version.appended else 0.0

    def hints(self, reader: str) -> Sequence[float]:
        world, faults = self._world, self._world.faults
        if world.happens("lost_hints", faults.lost_hints):
            return ()
        usual = world.hosts[reader].delay + 0.01
        twice = world.happens("doubled_hints", faults.doubled_hints)
        return (usual, usual + world.rng.uniform(0.0, 10.0)) if twice else (usual,)

    def reached(self, name: str) -> None:
        self._world.hosts[name].reached_after_death()
