"""Somebody who looks at the run while it goes on, as `swarm status` does: by the one reader, through faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.errors import StoreError
from swarm.records.finished import BY_COORDINATOR, BY_WORKERS
from swarm.records.reader import RunReader, Snapshot
from swarm.store.run import Run
from tests.simulation.plan import EXPERIMENT
from tests.simulation.villains import Bystander

if TYPE_CHECKING:
    from tests.simulation.world import World


class Onlooker(Bystander):
    """Reads all there is to be read, now and then."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "onlooker")
        self._reader = RunReader(Run(EXPERIMENT, self.store()))

    def start(self) -> None:
        self.world.after(self.world.rng.uniform(8.0, 16.0), self._look)

    def _look(self) -> None:
        self.start()
        try:
            self.holds(self._reader.refresh())
        except StoreError:
            self.world.note(self.name, "cannot read")

    def holds(self, now: Snapshot, *, all_of_it: bool = False) -> None:
        """What it reads is what there is, or was a while ago.

        Args:
            all_of_it: nothing is late any more.
        """
        laws = self.world.laws
        for node, progress in now.progress.items():
            rows = {row.round: row.my_reward for row in laws.rows_of(node)}
            if any(rows.get(round_) != reward for round_, reward in progress.rewards.items()):
                raise laws.broken(f"the reader tells of rewards that are not in the rows of {node}", self.name)
            if all_of_it and progress.rewards != rows:
                raise laws.broken(f"the reader does not tell of all rows of {node}", self.name)
        over = now.finished
        self.world.note(self.name, "sees", now.rounds_done, now.rounds_expected, over, len(now.nodes))
        if over and over.by == BY_COORDINATOR and not any(state.finished for state in laws.states()):
            raise laws.broken("the reader takes for finished what no coordinator said was", self.name)
        if over and over.by == BY_WORKERS and not any(worker.finished for worker in self.world.workers):
            raise laws.broken("the reader takes for finished what no worker has finished", self.name)

    def look_at_the_end(self) -> None:
        """Once more, with nothing between it and the place."""
        self.holds(RunReader(Run(EXPERIMENT, self.world.memory.open())).refresh(), all_of_it=True)
