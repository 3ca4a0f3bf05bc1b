"""Time, and everything put together: one run of one plan."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from hashlib import blake2b
from random import Random
from typing import NamedTuple

import structlog

from swarm.errors import MissedError
from swarm.wire import keys
from tests.doubles.faulty import FaultyPlace
from tests.doubles.memory import MemoryPlace
from tests.simulation.hosts import HOST, Host, Strike
from tests.simulation.laws import BrokenLawError, Laws
from tests.simulation.network import Network, Partition
from tests.simulation.nodes import CoordinatorHost, WorkerHost, watched
from tests.simulation.onlooker import Onlooker
from tests.simulation.plan import FAULTS_UNTIL, Plan
from tests.simulation.villains import VILLAINS
from tests.simulation.virtual_time import VirtualLoop

LOOK_EVERY = 2.0
"""Seconds between two looks of the laws at everybody."""


class Outcome(NamedTuple):
    """What came of a run that kept all laws."""

    seconds: float
    """Virtual."""
    events: int
    """What was noted: writes, decisions, log lines, faults."""
    rows: int
    rollouts: int
    injected: Counter[str]
    digest: str
    """Of everything that happened, in order."""


class World:
    """Time, luck, the place and everybody who uses it."""

    def __init__(self, plan: Plan, *, trace: list[str] | None = None) -> None:
        self.plan, self.faults = plan, plan.faults
        self.rng = Random(f"world {plan.seed}")
        self.trace = trace
        self.loop = VirtualLoop()
        self.injected: Counter[str] = Counter()
        self.events = 0
        self.over = False
        self.failure: BrokenLawError | None = None
        self._digest = blake2b(digest_size=16)
        self._done = asyncio.Event()
        self.memory = MemoryPlace()
        self.network = Network(self)
        self.place = FaultyPlace(self.network, self.loop.time)
        self.laws = Laws(self)
        self.hosts: dict[str, Host] = {}
        self.workers = [self._worker(name) for name in plan.worker_names]
        count = 0 if plan.own_clock else 1 + plan.standby
        self.coordinators = [CoordinatorHost(self, f"coordinator{n}", standby=plan.standby) for n in range(count)]
        self.hosts = {host.name: host for host in (*self.workers, *self.coordinators)}
        self.onlooker = Onlooker(self)
        self.hosts[self.onlooker.name] = self.onlooker
        self.vandalised: set[str] = set()
        """Keys of others' files that a stranger has written over."""
        self.quitters: set[str] = set()
        """Processes that never come back."""
        self._schedule_starts()
        self._schedule_faults()

    def _worker(self, name: str) -> WorkerHost:
        slowness = self.rng.uniform(4, 15) if self.happens("slow", self.faults.slow) else 1.0
        self.laws.knows_questions(name)
        return WorkerHost(self, name, slowness=slowness)

    @property
    def now(self) -> float:
        return self.loop.time()

    # ── luck ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def happens(self, kind: str, share: float) -> bool:
        """Whether a fault strikes here; counted."""
        if share <= 0:
            return False
        struck = self.rng.random() < share
        self.injected[kind] += struck
        return struck

    # ── who comes, and what befalls them ────────────────────────────────────────────────────────────────────────────
    def _schedule_starts(self) -> None:
        rng = self.rng
        self.onlooker.start()
        for coordinator in self.coordinators:
            self.after(rng.uniform(0.0, 3.0), coordinator.start)
        terminal = 0.0
        for worker in self.workers:
            late = self.happens("late_joiners", self.faults.late_joiners)
            begins = rng.uniform(0.0, FAULTS_UNTIL if late else 3.0)
            if not self.plan.expects and not late:  # one terminal after the other
                terminal += begins
                begins = terminal
            self.after(begins, worker.start)
        for kind, villain in VILLAINS.items():
            if self.happens(kind, getattr(self.faults, kind)):
                host = self.hosts[villain.__name__.lower()] = villain(self, villain.__name__.lower())
                self.after(rng.uniform(0.0, 20.0), host.start)

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
            (self._lose_mount, faults.lost_mounts),
            (self._quit, faults.quitters),
            (self._stop, faults.stops),
        ):
            for _ in range(int(number) + (self.rng.random() < number % 1)):
                self.after(self.rng.uniform(3.0, FAULTS_UNTIL), strike)

    def _anybody(self) -> Host:
        return self.rng.choice([*self.workers, *self.coordinators, *self.coordinators])

    def _partition(self) -> None:
        names = [host.name for host in (*self.workers, *self.coordinators)]
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
        self._anybody().strike = Strike(self.rng.randrange(9), kind, self.rng.uniform(0.5, 25.0))

    def _kill_coordinator(self) -> None:
        if not self.coordinators:
            return
        victim = self.rng.choice(self.coordinators)
        if victim.running:
            for_good = self.laws.clock_has_opened and self.rng.random() < 0.3
            self._injected("coordinator_deaths", f"{victim.name}{' for good' if for_good else ''}")
            if for_good:
                self.quitters.add(victim.name)
            back_in = None if for_good else self.rng.uniform(0.5, 90.0)
            victim.die(power_cut=self.rng.random() < 0.5, back_in=back_in)
            self.laws.disturbed(until=self.now)

    def _pause(self) -> None:
        victim, seconds = self._anybody(), self.rng.uniform(1.0, 120.0)
        if self.rng.random() < 0.5:
            victim.strike = Strike(self.rng.randrange(9), "pause", seconds)
        elif victim.running:
            self._injected("pauses", victim.name)
            victim.pause(seconds)

    def _fill_disk(self) -> None:
        victim = self._anybody()
        self._injected("full_disks", victim.name)
        victim.fill_disk(self.rng.uniform(1.0, 60.0))

    def _lose_mount(self) -> None:
        victim = self._anybody()
        self._injected("lost_mounts", victim.name)
        victim.lose_mount(self.rng.uniform(1.0, 40.0))

    def _quit(self) -> None:
        victim = self.rng.choice(self.workers)
        others = [worker for worker in self.workers if worker is not victim and worker.name not in self.quitters]
        if victim.running and others:
            self._injected("quitters", victim.name)
            self.quitters.add(victim.name)
            victim.die(power_cut=self.rng.random() < 0.5, back_in=None)

    def _stop(self) -> None:
        victim = self.rng.choice(self.workers)
        if victim.running and self.now >= victim.paused_until:
            self._injected("stops", victim.name)
            victim.stop()

    def ended(self, host: Host, code: int, error: Exception | None) -> None:
        """A node has ended by itself; somebody starts it again, unless its work is done."""
        self.laws.ended(host, code, error)
        if code in (0, MissedError.exit_code):
            if isinstance(host, WorkerHost):
                host.finished = True
        elif host.name not in self.quitters:
            self.after(self.rng.uniform(1.0, 40.0), host.start)

    def _injected(self, kind: str, what: str) -> None:
        self.injected[kind] += 1
        self.note("fault", kind, what)

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def after(self, delay: float, deed: Callable[..., None], *arguments: object) -> None:
        """Do something that no node does, whoever asks for it."""
        self.loop.call_later(delay, self._deed, deed, arguments, context=_NOBODY)

    def _deed(self, deed: Callable[..., None], arguments: tuple[object, ...]) -> None:
        with suppress(BrokenLawError):  # it was taken note of
            deed(*arguments)

    def fail(self, error: BrokenLawError) -> None:
        """A law is broken: the run is over."""
        self.failure = self.failure or error
        self._done.set()

    def run(self) -> Outcome:
        """Until every worker that lives has finished. Raises BrokenLawError."""
        before = structlog.get_config()
        structlog.configure(processors=[self._hear], wrapper_class=structlog.make_filtering_bound_logger(20))
        asyncio.set_event_loop(self.loop)
        try:
            with watched():
                self.loop.run_until_complete(self._watch())
            if self.failure is None:
                self.laws.at_the_end()
                self.laws.starting.at_the_end()
                self.onlooker.look_at_the_end()
            if self.failure is not None:
                raise _without_frames(self.failure)
            rows = sum(len(self.laws.rows_of(worker.name)) for worker in self.workers)
            rollouts = sum(key.startswith(keys.ROLLOUTS) for key in self.place.history)
            return Outcome(self.now, self.events, rows, rollouts, self.injected, self._digest.hexdigest())
        finally:
            self.over = True
            for host in self.hosts.values():
                host.life.end()
            self.failure = None  # its frames hold streams and groups of the dead
            self.loop.drop_everything()
            self.loop.close()
            asyncio.set_event_loop(None)
            structlog.configure(**before)

    async def _watch(self) -> None:
        while not self._over() and self.failure is None:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._done.wait()
            except TimeoutError:
                pass
            if self.failure is None:
                self._look()

    def _look(self) -> None:
        try:
            self.laws.within_time()
            self.laws.strangers.kept()
            for worker in self.workers:
                if worker.running:
                    self.laws.still_goes_on(worker)
        except BrokenLawError:
            return

    def _over(self) -> bool:
        return all(worker.finished or worker.name in self.quitters for worker in self.workers)

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────
    def note(self, who: str, what: str, *about: object) -> None:
        self.events += 1
        told = f"{self.now:10.4f} {who} {what} {' '.join(map(_text, about))}"
        self._digest.update(told.encode())
        if self.trace is not None:
            self.trace.append(told)

    def stepped(self, host: Host, event: object, instructions: Sequence[object]) -> None:
        """What a worker's machine was told, and said."""
        if instructions or self.trace is not None:
            told = ", ".join(map(_text, instructions)) or "nothing"
            self.note(host.name, _text(event), "->", told)

    def _hear(self, logger: object, method: str, event: dict[str, object]) -> object:
        """A processor of structlog: log lines are what nodes say."""
        host = HOST.get()
        name = str(event.pop("event"))
        if host is not None and not self.over:
            host.says(name, event)
            self.note(host.name, "says", name, *sorted(f"{key}={_text(value)}" for key, value in event.items()))
            if name == "rounds.lost":
                assert isinstance(host, WorkerHost)
                self.laws.rounds_lost(host, str(event["why"]))
        raise structlog.DropEvent


def _without_frames(failure: BrokenLawError) -> BrokenLawError:
    """The same, with where it was raised as a note."""
    told = BrokenLawError(*failure.args)
    told.add_note("".join(traceback.format_tb(failure.__traceback__)))
    return told


def _text(about: object) -> str:
    """As text, with sets in order: theirs differs from process to process."""
    if isinstance(about, str):
        return about
    if isinstance(about, set | frozenset):
        return repr(sorted(about))
    if hasattr(about, "__dataclass_fields__"):
        parts = (f"{name}={_text(getattr(about, name))}" for name in about.__dataclass_fields__)
        return f"{type(about).__name__}({', '.join(parts)})"
    return repr(about)


_NOBODY = Context()
