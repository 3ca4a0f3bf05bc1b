"""The nodes that live on hosts: the real worker and coordinator, under watch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from swarm.algo.sampling import Sampler, sample_external
from swarm.config import Settings
from swarm.node import round as round_
from swarm.node.base.context import NodeContext
from swarm.node.coordinator import clock_keeper
from swarm.node.coordinator.coordinator import Coordinator
from swarm.node.coordinator.coordinator_machine import CoordinatorLook, CoordinatorMachine, Decision, WriteState
from swarm.node.worker import events as m
from swarm.node.worker import worker
from swarm.node.worker.worker import Worker
from swarm.tasks.universe import Universe
from swarm.types import RoundKey, ScoredGroup
from tests.simulation.engine import LightPolicy, LightTasks, Update
from tests.simulation.hosts import HOST, Host, QueuedCompute
from tests.simulation.plan import TASKS
from tests.simulation.starting_laws import Watch
from tests.simulation.stranger_laws import Loss
from tests.unit.node.checked_worker import CheckedWorker

if TYPE_CHECKING:
    from tests.simulation.world import World

STOPPED = 143


class WorkerHost(Host):
    """Runs a worker."""

    coordinates = False

    def __init__(self, world: World, name: str, *, slowness: float) -> None:
        super().__init__(world, name)
        self.slowness = slowness
        self.finished = False
        self.progress_at = 0.0
        """When it last began or ended a round."""
        self.round_began_at = 0.0
        self.machine: WatchedWorkerMachine | None = None
        self.draw: m.Draw | None = None
        """Of what it drew its external groups last."""
        self.drew_all = False
        """And it was not cut off."""
        self.policy: LightPolicy
        self._worker: Worker | None = None

    def settings(self) -> Settings:
        return self.world.plan.settings(self.name)

    async def live(self, ctx: NodeContext) -> int:
        self.machine = self.draw = None
        self.progress_at = self.world.now
        self._worker = Worker(
            ctx,
            universe=Universe.of(TASKS, ctx.settings.profile),
            load_policy=self._load,
            task_source=LightTasks(),
            compute=QueuedCompute(self),
        )
        return await self._worker.run()

    def _load(self) -> LightPolicy:
        self.works(0.3, 1.5)
        self.policy = LightPolicy(self._works, self._updated)
        return self.policy

    def _works(self, step: str) -> None:
        if step == "generate":
            self.works(0.5, 2.0)
        else:
            self.works(0.1, 0.5)

    def _updated(self, update: Update) -> None:
        self.world.note(self.name, "update", len(self.policy.updates), update.weights)
        self.world.laws.updated(self, update)

    def stop(self) -> None:
        """Somebody asks it to end."""
        if self.running and self._worker:
            self._worker.stop(STOPPED)


class CoordinatorHost(Host):
    """Runs a coordinator, or one that stands by."""

    coordinates = True

    def __init__(self, world: World, name: str, *, standby: bool) -> None:
        super().__init__(world, name)
        self.machine: WatchedCoordinatorMachine | None = None
        self.active_since = 0.0
        self._standby = standby

    @property
    def keeps_the_clock(self) -> bool:
        """It is active, and could say so."""
        machine = self.machine
        return self.running and machine is not None and self.world.now >= self.paused_until and self.disk_works

    def settings(self) -> Settings:
        return self.world.plan.settings(self.name, standby=self._standby)

    async def live(self, ctx: NodeContext) -> int:
        self.machine = None
        return await Coordinator(ctx).run()


def sample_watched(
    pool: Sequence[ScoredGroup], count: int, rng: Random, sampler: Sampler, most: int | None = None
) -> list[ScoredGroup]:
    """As sample_external; the same whatever came first."""
    state = rng.getstate()
    sampled = sample_external(pool, count, rng, sampler, most)
    rng.setstate(state)
    host = HOST.get()
    assert host
    if sampled != sample_external(pool[::-1], count, rng, sampler, most):
        raise host.world.laws.broken("the order of arrival decides what is trained on", host.name)
    return sampled


class WatchedWorkerMachine:
    """In the place of a worker's machine: the same, with every step held against what a worker may do."""

    def __init__(self, settings: Settings) -> None:
        host = HOST.get()
        assert isinstance(host, WorkerHost)
        self._host = host
        self._checked = CheckedWorker(settings)
        self._checked.draws_at_once = False
        self._loss = Loss()
        host.machine = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checked.machine, name)

    def handle(self, event: m.Event) -> Sequence[m.Instruction]:
        host, world = self._host, self._host.world
        with world.laws.of(host):
            instructions = self._checked.handle(event)
        if isinstance(event, m.Ready):
            world.laws.resumed(host, event.next)
        world.stepped(host, event, instructions)
        world.laws.strangers.handled(host, self._checked.machine, self._loss, instructions)
        for instruction in instructions:
            if isinstance(instruction, m.Draw):
                host.draw = instruction
            if isinstance(instruction, m.Generate):
                host.progress_at = host.round_began_at = world.now
        if isinstance(event, m.Drawn):
            host.drew_all = event.complete
        if isinstance(event, m.StepDone) and event.phase is m.Phase.SUBMITTING:
            host.progress_at = world.now
        return instructions


class WatchedCoordinatorMachine(CoordinatorMachine):
    """A coordinator's machine, with every decision held against the laws of the clock."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        host = HOST.get()
        assert isinstance(host, CoordinatorHost)
        self._host = host
        self._loss = Loss()
        self._watch = Watch()

    def resume(self, key: RoundKey) -> WriteState | None:
        self._host.world.laws.takes_over(self._host, key)
        self._host.machine, self._host.active_since = self, self._host.world.now
        return super().resume(key)

    def handle(self, look: CoordinatorLook) -> Decision | None:
        world = self._host.world
        with world.laws.of(self._host):
            decision = super().handle(look)
        world.laws.decided(self._host, look, decision)
        world.laws.strangers.decided(self._host, self._loss, look, decision)
        world.laws.starting.decided(self._host, self._watch, look, decision)
        if decision is not None:
            world.note(self._host.name, "decides", decision)
            if not isinstance(decision, WriteState):
                self._host.machine = None
        return decision


@contextmanager
def watched() -> Iterator[None]:
    """For the block, whatever nodes are made are made with these machines."""
    with (
        mock.patch.object(worker, "WorkerMachine", WatchedWorkerMachine),
        mock.patch.object(round_, "sample_external", sample_watched),
        mock.patch.object(clock_keeper, "CoordinatorMachine", WatchedCoordinatorMachine),
    ):
        yield
