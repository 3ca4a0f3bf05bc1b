"""Somebody who looks at the run while it goes on, as `swarm status` does: by the one reader, through faults."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from swarm.errors import StoreError
from swarm.records.finished import BY_COORDINATOR, BY_WORKERS
from swarm.records.listing import count_files, saved_rounds
from swarm.records.reader import RunReader, RunSnapshot
from swarm.records.stream import EventStream, WantedEvents
from swarm.store.run import Run
from swarm.wire import keys
from tests.simulation.plan import EXPERIMENT
from tests.simulation.villains import Bystander

if TYPE_CHECKING:
    from tests.simulation.world import World


_LOSING = ("power_cuts", "quitters", "in_writing:power_cut", "in_writing:kill")
"""Faults after which a growing file may end earlier than it did."""


class Onlooker(Bystander):
    """Reads all there is to be read, now and then."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "onlooker")
        run = Run(EXPERIMENT, self.store())
        self._reader = RunReader(run)
        self._stream = EventStream(run, WantedEvents(metrics=True))
        self._told: Counter[str] = Counter()
        """Events and rows that came, by node."""

    def start(self) -> None:
        self.world.after(self.world.rng.uniform(8.0, 16.0), self._look)

    def _look(self) -> None:
        self.start()
        try:
            self.holds(self._reader.refresh())
            self._told.update(event.node for event in self._stream.read())
        except StoreError:
            self.world.note(self.name, "cannot read")

    def holds(self, now: RunSnapshot, *, all_of_it: bool = False) -> None:
        """What it reads is what there is, or was a while ago.

        Args:
            all_of_it: nothing is late any more.
        """
        laws = self.world.laws
        for node, progress in now.progress.items():
            rows = {row.round: row.my_reward for row in laws.rows_of(node)}
            measured = {(row.round, row.my_reward) for row in laws.rows_of(node)}  # of any stage
            if not set(progress.rewards.items()) <= measured:
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
        laws, run = self.world.laws, Run(EXPERIMENT, self.world.memory.open())
        self.holds(RunReader(run).refresh(), all_of_it=True)
        submitted, saved = count_files(run.store, keys.REWARDS).nodes, saved_rounds(run)
        everything = Counter(event.node for event in EventStream(run, WantedEvents(metrics=True)).read())
        for worker in self.world.workers:
            rows = [(row.round, row.stage) for row in laws.rows_of(worker.name)]
            counted = [tuple(key) for key in sorted(submitted) if worker.name in submitted[key]]
            if worker.name not in self.world.quitters and counted != rows:
                raise laws.broken(f"of {worker.name} rewards of {counted} are counted, and rows of {rows}", self.name)
            whole = [round_ for round_, stage in rows if stage == self.world.plan.stages - 1]
            skipped_to = rows[-1][0] if rows else 0  # who ends in the middle of a round has saved that one
            if worker.finished and whole and saved.get(worker.name, [0])[-1] != max(skipped_to, whole[-1] + 1):
                raise laws.broken(f"{worker.name} has finished, and saved {saved.get(worker.name)}", self.name)
            if self._told[worker.name] > everything[worker.name] and not self._a_file_became_another_one():
                raise laws.broken(f"an event of {worker.name} is told twice", self.name)

    def _a_file_became_another_one(self) -> bool:
        """By losing half a record, or all that was not durable; it is read from its beginning then."""
        return any(self.world.injected[kind] for kind in _LOSING)
