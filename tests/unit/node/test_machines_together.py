"""Whole swarms in virtual time: one coordinator, some workers, and everything that goes wrong between them.

Nothing here waits: a heap of (time, deed) stands for disks, models, watchers and processes that die.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from swarm.node import worker_machine as m
from swarm.node.coordinator_machine import CoordinatorMachine, Look, WriteState
from swarm.types import RoundKey
from tests.unit.node.checked_worker import CheckedWorker

INTERVAL = 20.0
"""Of a round; a quick worker takes a tenth of it, the slowest more than all of it."""
TIMEOUT = 4.0
"""Until a dead worker is taken for dead."""


class Folder:
    """What all of them see."""

    def __init__(self) -> None:
        self.state: tuple[RoundKey, bool] | None = None
        self.states: list[RoundKey] = []
        self.rollouts: set[tuple[RoundKey, str]] = set()
        self.rewards: set[tuple[RoundKey, str]] = set()
        self.rows: set[tuple[str, int]] = set()
        self.checkpoints: dict[str, int] = {}
        self.alive_until: dict[str, float] = {}


class Node:
    """One worker over all its lives."""

    def __init__(self, world: World, name: str, speed: float, staleness: int) -> None:
        self.world, self.name, self.speed, self.staleness = world, name, speed, staleness
        self.life = 0
        self.worker: CheckedWorker | None = None
        self.done_by_row: list[int] = []

    def start(self) -> None:
        world, self.life = self.world, self.life + 1
        self.worker = CheckedWorker(
            external_groups=world.external_groups, round_interval=INTERVAL, staleness=self.staleness
        )
        done = [round_ for name, round_ in world.folder.rows if name == self.name]
        next_round = max([world.folder.checkpoints.get(self.name, 0), *(r + 1 for r in done)])
        self.later(self.speed, lambda: self._ready(next_round))
        self.later(0.0, self._look)

    def _ready(self, next_round: int) -> None:
        self._beat()
        self.tell(m.Ready(next_round))

    def crash(self) -> None:
        if self.worker and not self.worker.done:
            self.life += 1  # what was under way for the old life is lost
            self.worker = None

    def later(self, delay: float, deed: Callable[[], None]) -> None:
        life = self.life

        def if_alive() -> None:
            if self.life == life:
                deed()

        self.world.after(delay, if_alive)

    def tell(self, event: m.Event) -> None:
        assert self.worker
        for instruction in self.worker.handle(event):
            self.later(self._duration(instruction), partial(self._carried_out, instruction))
        if self.worker.machine.wake_at is not None:
            self.later(
                max(0.0, self.worker.machine.wake_at - self.world.now), lambda: self.tell(m.Tick(self.world.now))
            )
        if self.worker.done:
            self.world.folder.alive_until.pop(self.name, None)

    def _duration(self, instruction: m.Instruction) -> float:
        heavy = isinstance(instruction, m.Generate | m.Train)
        return self.world.rng.expovariate(1.0) * (self.speed if heavy else 0.05)

    def _carried_out(self, instruction: m.Instruction) -> None:
        folder = self.world.folder
        match instruction:
            case m.Publish(key):
                folder.rollouts.add((key, self.name))
            case m.Submit(key):
                assert (self.name, key.round) not in folder.rows, "one row per node and round"
                folder.rows.add((self.name, key.round))
                folder.rewards.add((key, self.name))
                self.done_by_row.append(key.round)
            case m.Save(rounds_done):
                folder.checkpoints[self.name] = rounds_done
        answer = _answer(instruction, self.world.now)
        if answer:
            self.tell(answer)

    def _look(self) -> None:
        """The watcher: now and then, and some of what it could see is seen only the next time."""
        world = self.world
        assert self.worker
        if self.worker.done:
            return
        self._beat()
        if world.folder.state and world.lucky():
            key, finished = world.folder.state
            self.tell(m.Clock(key, finished, world.now))
        if world.lucky():
            live = {node for node, until in world.folder.alive_until.items() if until > world.now}
            self.tell(m.PeersLive(frozenset(live - {self.name}), world.now))
        for key, peer in sorted(world.folder.rollouts):
            if peer != self.name and world.lucky():
                self.tell(m.PeerArrived(key, peer, world.now))
        self.later(world.rng.uniform(0.1, 1.0), self._look)

    def _beat(self) -> None:
        if self.worker and self.worker.machine.phase is not m.Phase.LOADING and not self.worker.done:
            self.world.folder.alive_until[self.name] = self.world.now + TIMEOUT


class World:
    """Time, luck, the folder and everybody who uses it."""

    def __init__(self, seed: int, *, workers: int, rounds: int, stages: int = 1, external_groups: int = 4) -> None:
        self.rng, self.now, self.external_groups = Random(seed), 0.0, external_groups
        self.rounds, self.stages = rounds, stages
        self.folder = Folder()
        self._deeds: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.nodes = [
            Node(self, f"node{i}", speed=self.rng.choice([0.5, 1.0, 2.0, 15.0]), staleness=i % 2)
            for i in range(workers)
        ]
        self.coordinator_life = 0
        self.coordinator: CoordinatorMachine | None = None

    def after(self, delay: float, deed: Callable[[], None]) -> None:
        heapq.heappush(self._deeds, (self.now + delay, next(self._order), deed))

    def lucky(self) -> bool:
        return self.rng.random() < 0.8

    def start_coordinator(self) -> None:
        self.coordinator_life += 1
        self.coordinator = CoordinatorMachine(
            max_rounds=self.rounds, max_stages=self.stages, interval=INTERVAL, expected_workers=len(self.nodes)
        )
        self._write(self.coordinator.resume(self.folder.state[0] if self.folder.state else RoundKey(0)))
        self._keep_time(self.coordinator_life)

    def crash_coordinator(self) -> None:
        self.coordinator_life += 1
        self.after(self.rng.uniform(0.0, 2 * INTERVAL), self.start_coordinator)

    def _keep_time(self, life: int) -> None:
        if life != self.coordinator_life or self.coordinator is None or self.coordinator.finished:
            return
        live = frozenset(node for node, until in self.folder.alive_until.items() if until > self.now)
        submitted = frozenset(node for key, node in self.folder.rewards if key == self.coordinator.key)
        self._write(self.coordinator.handle(Look(self.now, live, submitted)))
        self.after(self.rng.uniform(0.1, 1.0), lambda: self._keep_time(life))

    def _write(self, write: WriteState | None) -> None:
        if write:
            self.folder.state = (write.key, write.finished)
            self.folder.states.append(write.key)

    def run(self, *, limit: float = 1e5) -> None:
        while self._deeds:
            self.now, _, deed = heapq.heappop(self._deeds)
            assert self.now < limit, "the swarm stands still"
            deed()


def _answer(instruction: m.Instruction, now: float) -> m.Event | None:
    match instruction:
        case m.Generate(key):
            return m.Generated(key)
        case m.Score(key):
            return m.Scored(key)
        case m.Publish(key):
            return m.Published(key, now)
        case m.Train(key):
            return m.Trained(key)
        case m.Submit(key):
            return m.Submitted(key)
        case m.Save(rounds_done):
            return m.Saved(rounds_done)
    return None


def make_world(seed: int, *, crashes: int = 0, late: bool = False, **kind: int) -> World:
    """A swarm in which so many processes die and come back, and some may join late."""
    world = World(seed, **{"workers": 4, "rounds": 6, **kind})
    world.after(world.rng.uniform(0, 5), world.start_coordinator)
    for node in world.nodes:
        world.after(world.rng.uniform(0, 3 * INTERVAL if late else 2.0), node.start)
    for _ in range(crashes):
        at = world.rng.uniform(5.0, 80.0)
        if world.rng.random() < 0.2:
            world.after(at, world.crash_coordinator)
        else:
            _crash_and_restart(world, world.rng.choice(world.nodes), at)
    return world


def _crash_and_restart(world: World, node: Node, at: float) -> None:
    def crash() -> None:
        if node.worker and not node.worker.done:
            node.crash()
            world.after(world.rng.uniform(0.1, 2 * TIMEOUT), node.start)

    world.after(at, crash)


def check_all(world: World) -> None:
    """What has to hold at the end of every run."""
    for node in world.nodes:
        assert node.worker
        assert node.worker.done
        assert node.worker.finish == m.Finish("finished")
        assert node.done_by_row == sorted(set(node.done_by_row)), "forwards, and no round twice"
    opened = [
        key for key, again in zip(world.folder.states, [None, *world.folder.states], strict=False) if key != again
    ]
    every = [RoundKey(r, s) for r in range(world.rounds) for s in range(world.stages)]
    assert opened == [*every, RoundKey(world.rounds)], "the clock visits every stage of every round once, in order"


@pytest.mark.parametrize("seed", range(40))
def test_a_swarm_runs_to_its_end_whatever_is_slow_or_seen_late(seed: int) -> None:
    world = make_world(seed)
    world.run()
    check_all(world)


@pytest.mark.parametrize("seed", range(40))
def test_a_swarm_runs_to_its_end_although_processes_die_and_join_late(seed: int) -> None:
    world = make_world(seed, crashes=6, late=True)
    world.run()
    check_all(world)


@pytest.mark.parametrize("seed", range(10))
def test_a_swarm_without_sharing_runs_to_its_end(seed: int) -> None:
    world = make_world(seed, crashes=3, external_groups=0)
    world.run()
    check_all(world)


@pytest.mark.parametrize("seed", range(10))
def test_no_round_goes_by_without_anybody_doing_it(seed: int) -> None:
    """Rounds once advanced twice, so that only even folders existed."""
    world = make_world(seed)
    for node in world.nodes:
        node.speed = 1.0
    world.run()
    assert {round_ for _, round_ in world.folder.rows} == set(range(world.rounds))
