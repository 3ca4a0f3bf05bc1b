"""Time, and everything put together: one run of one plan.

Nothing here waits: a heap of (time, deed) stands for disks, models, watchers and processes that die.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.simulation.coordinator_node import CoordinatorNode
from tests.simulation.folder import Folder, State
from tests.simulation.laws import Laws
from tests.simulation.network import Network, Partition
from tests.simulation.plan import FAULTS_UNTIL, Plan
from tests.simulation.process import Mishap, Process
from tests.simulation.villains import Liar, Vandal
from tests.simulation.worker_node import WorkerNode
from tests.simulation.write_steps import WriteSteps, taken_down

STALE_VERSIONS = 5
"""How old a stale read of the state file can be."""


class Outcome(NamedTuple):
    """What came of a run that kept all laws."""

    seconds: float
    """Virtual."""
    events: int
    rows: int
    rollouts: int
    injected: Counter[str]


class World:
    """Time, luck, the folder and everybody who uses it."""

    def __init__(self, plan: Plan, *, write_steps: WriteSteps | None = None, trace: list[str] | None = None) -> None:
        self.plan, self.faults = plan, plan.faults
        self.rng = Random(f"world {plan.seed}")
        self.write_steps = write_steps or taken_down()
        self.trace = trace
        self.now = 0.0
        self.events = 0
        self.injected: Counter[str] = Counter()
        self.folder = Folder()
        self.network = Network()
        self.laws = Laws(self)
        self._deeds: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = itertools.count()
        self.workers = [self._worker(f"node{number:03}") for number in range(plan.workers)]
        coordinators = 0 if plan.own_clock else 1 + plan.standby
        self.coordinators = [CoordinatorNode(self, f"coordinator{number}") for number in range(coordinators)]
        self.quitters: set[str] = set()
        """Processes that never come back."""
        self._schedule_starts()
        self._schedule_faults()

    def _worker(self, name: str) -> WorkerNode:
        slowness = self.rng.uniform(4, 15) if self.happens("slow", self.faults.slow) else 1.0
        return WorkerNode(self, name, slowness=slowness, staleness=self.rng.randrange(2))

    # ── luck ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def happens(self, kind: str, share: float) -> bool:
        """Whether a fault strikes here; counted."""
        struck = share > 0 and self.rng.random() < share
        self.injected[kind] += struck
        return struck

    def lateness(self) -> Iterator[float]:
        """Seconds by which further files come late to a reader."""
        while True:
            yield self.rng.uniform(1.0, 20.0) if self.happens("late", self.faults.late) else 0.0

    def state_seen_by(self, reader: Process, *, stale: bool = True) -> State | None:
        """The state file as a reader has it now, or had it a while ago."""
        seen = self.folder.states_seen(reader.horizon, STALE_VERSIONS if stale and self.faults.stale_state else 1)
        if len(seen) > 1 and self.happens("stale_state", self.faults.stale_state):
            return self.rng.choice(seen)
        return seen[0] if seen else None

    def coordinator_named(self, name: str) -> CoordinatorNode:
        return next(coordinator for coordinator in self.coordinators if coordinator.name == name)

    # ── who comes, and what befalls them ────────────────────────────────────────────────────────────────────────────
    def _schedule_starts(self) -> None:
        rng = self.rng
        for coordinator in self.coordinators:
            self.after(rng.uniform(0.0, 3.0), coordinator.start)
        for worker in self.workers:
            late = self.happens("late_joiners", self.faults.late_joiners)
            self.after(rng.uniform(0.0, FAULTS_UNTIL if late else 3.0), worker.start)
        if self.happens("liars", self.faults.liars):
            self.after(rng.uniform(0.0, 20.0), Liar(self, "liar").start)
        if self.happens("vandals", self.faults.vandals):
            self.after(rng.uniform(0.0, 20.0), Vandal(self, "vandal").start)

    def _schedule_faults(self) -> None:
        faults = self.faults
        for strike, number in (
            (self._partition, faults.partitions),
            (self._kill, faults.kills),
            (self._cut_power, faults.power_cuts),
            (self._kill_in_writing, faults.deaths_in_writing),
            (self._kill_coordinator, faults.coordinator_deaths),
            (self._pause, faults.pauses),
            (self._fill_disk, faults.full_disks),
            (self._quit, faults.quitters),
            (self._stop, faults.stops),
        ):
            for _ in range(int(number) + (self.rng.random() < number % 1)):
                self.after(self.rng.uniform(3.0, FAULTS_UNTIL), strike)

    def _anybody(self) -> Process:
        return self.rng.choice([*self.workers, *self.coordinators, *self.coordinators])

    def _partition(self) -> None:
        names = [process.name for process in (*self.workers, *self.coordinators)]
        size = 1 if self.rng.random() < 0.4 else self.rng.randint(1, len(names) - 1)
        inside = frozenset(self.rng.sample(names, size))
        length = self.rng.uniform(3.0, 70.0)
        self.network.partitions.append(Partition(self.now, self.now + length, inside))
        self.laws.disturbed(until=self.now + length)
        self._injected("partitions", f"{len(inside)} of {len(names)} for {length:.1f} s")

    def _kill(self, *, power_cut: bool = False) -> None:
        victim = self.rng.choice(self.workers)
        if victim.running:
            self._injected("power_cuts" if power_cut else "kills", victim.name)
            victim.die(power_cut=power_cut, back_in=self.rng.uniform(0.5, 25.0))

    def _cut_power(self) -> None:
        self._kill(power_cut=True)

    def _kill_in_writing(self) -> None:
        kind = self.rng.choice(["kill", "power_cut"])
        self._anybody().mishap = Mishap(self.rng.randrange(9), kind, self.rng.uniform(0.5, 25.0))

    def _kill_coordinator(self) -> None:
        if not self.coordinators:
            return
        victim = self.rng.choice(self.coordinators)
        ran = any(not state.torn and not state.held for state in self.folder.states)
        if victim.running:
            for_good = ran and self.rng.random() < 0.3
            self._injected("coordinator_deaths", f"{victim.name}{' for good' if for_good else ''}")
            if for_good:
                self.quitters.add(victim.name)
            back_in = None if for_good else self.rng.uniform(0.5, 90.0)
            victim.die(power_cut=self.rng.random() < 0.5, back_in=back_in)
            self.laws.disturbed(until=self.now)

    def _pause(self) -> None:
        victim, seconds = self._anybody(), self.rng.uniform(1.0, 120.0)
        if self.rng.random() < 0.5:
            victim.mishap = Mishap(self.rng.randrange(9), "pause", seconds)
        elif victim.running:
            self._injected("pauses", victim.name)
            victim.pause(seconds)

    def _fill_disk(self) -> None:
        victim = self._anybody()
        self._injected("full_disks", victim.name)
        victim.fill_disk(self.rng.uniform(1.0, 60.0))

    def _quit(self) -> None:
        victim = self.rng.choice(self.workers)
        others = [worker for worker in self.workers if worker is not victim and worker.name not in self.quitters]
        if victim.running and others:
            self._injected("quitters", victim.name)
            self.quitters.add(victim.name)
            victim.die(power_cut=self.rng.random() < 0.5, back_in=None)

    def _stop(self) -> None:
        victim = self.rng.choice(self.workers)
        if victim.running:
            self._injected("stops", victim.name)
            victim.stop()
            self.after(self.rng.uniform(1.0, 40.0), self._start_again, victim)

    def _start_again(self, worker: WorkerNode) -> None:
        if worker.running:
            self.after(5.0, self._start_again, worker)
        elif not worker.finished and worker.name not in self.quitters:
            worker.start()

    def _injected(self, kind: str, what: str) -> None:
        self.injected[kind] += 1
        self.note("fault", kind, what)

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def after(self, delay: float, deed: Callable[..., None], *arguments: object) -> None:
        heapq.heappush(self._deeds, (self.now + delay, next(self._order), deed, arguments))

    def run(self) -> Outcome:
        """Until every worker that lives has finished. Raises BrokenLawError."""
        while not self._over():
            self.now, _, deed, arguments = heapq.heappop(self._deeds)
            self.events += 1
            deed(*arguments)
            if not self.events % 5000:
                self.laws.within_time()
        self.laws.at_the_end()
        rows = sum(len(self.folder.rows_of(worker.name)) for worker in self.workers)
        return Outcome(self.now, self.events, rows, len(self.folder.rollouts), self.injected)

    def _over(self) -> bool:
        """Looked at often, so the answer is kept where it is no."""
        waits_for = self._waits_for
        if waits_for is not None and not (waits_for.finished or waits_for.name in self.quitters):
            return False
        self._waits_for = next(
            (worker for worker in self.workers if not worker.finished and worker.name not in self.quitters), None
        )
        return self._waits_for is None

    _waits_for: WorkerNode | None = None

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────
    def note(self, who: str, what: str, about: object) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:10.4f} {who} {what} {about}")

    def stepped(self, worker: WorkerNode, event: object, instructions: Sequence[object]) -> None:
        if self.trace is not None:
            told = [_sorted(instruction) for instruction in instructions]
            self.trace.append(f"{self.now:10.4f} {worker.name} {_sorted(event)} -> {', '.join(told) or 'nothing'}")


def _sorted(message: object) -> str:
    """As text, with sets in order: theirs differs from process to process."""
    parts = (
        f"{name}={sorted(value) if isinstance(value, frozenset) else value!r}" for name, value in vars(message).items()
    )
    return f"{type(message).__name__}({', '.join(parts)})"
