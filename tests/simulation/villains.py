"""Whoever else is there: bystanders that nothing befalls, and among them nodes that mean no good."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec

from swarm.node.base.presence import HIGHEST_BEAT
from swarm.records.files import read_peer
from swarm.records.liveness import ACTIVE, STARTING, STOPPED
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile, RewardFile, RolloutFile, StateFile
from tests.doubles.faulty import FaultyStore, Step
from tests.simulation.hosts import Host
from tests.simulation.plan import EXPERIMENT

if TYPE_CHECKING:
    from tests.simulation.world import World


class Bystander(Host):
    """Reads and writes by a handle that no law watches."""

    coordinates = False

    def store(self) -> FaultyStore:
        return FaultyStore(self.world.place, self.world.memory.open(self.name), self.name)

    def step(self, key: str, step: Step) -> None:
        """Nothing ever befalls it."""

    def start(self) -> None:
        raise NotImplementedError

    def put(self, key: str, data: bytes) -> None:
        self.world.note(self.name, "put", key)
        self.store().put(key, data)

    def put_away(self, key: str) -> None:
        """What is at a key, whatever it is."""
        if (entry := self.world.memory.open().stat(key)) is not None:
            (self.store().remove if entry.kind is Kind.FILE else self.store().remove_prefix)(key)

    def register(self, name: str, beat: int, *, status: str = ACTIVE, role: str = "worker") -> None:
        """Under any name."""
        peer = PeerFile(
            peer_id=name,
            registered_at=self.wall(),
            node_role=role,
            beat=beat,
            last_seen=self.wall(),
            status=status,
            incarnation=name,
        )
        self.put(keys.peer(name), encode(peer))

    def round_now(self) -> int:
        """Where the clock is, or the furthest of the workers."""
        state = self.world.laws.strangers.written
        return max(state.round if state else 0, self.world.laws.strangers.furthest)


class Liar(Bystander):
    """Registers as a worker and beats, and does nothing else, ever."""

    _beat = 0

    def start(self) -> None:
        self._beat += 1
        self.register(self.name, self._beat)
        self.world.after(self.world.plan.heartbeat, self.start)


class Vandal(Bystander):
    """Writes rubbish over the state file while an experiment runs, and into rounds under anybody's name."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.acts_left = world.rng.randrange(1, 12)
        self._of_groups = Random(f"parts {world.plan.seed} {name}")

    def start(self) -> None:
        self.world.after(self.world.rng.expovariate(0.1), self._act)

    def _place(self, key: RoundKey, victim: str) -> str:
        """Of the victim's file, or of one of a single group."""
        one_by_one = self.world.plan.one_by_one and self._of_groups.random() < 0.5
        return keys.group_file(key, victim, self._of_groups.randrange(2)) if one_by_one else keys.rollout(key, victim)

    def _act(self) -> None:
        world, rng = self.world, self.world.rng
        self.acts_left -= 1
        rubbish = rng.choice([b"", b"{", b"null", b'{"round": 0}', b'{"peer_id": 3}', bytes(range(256))])
        states = list(world.laws.states())
        if rng.random() < 0.5:
            if states and not any(state.finished for state in states):
                world.injected["vandalised_states"] += 1
                self.put(keys.STATE, rubbish)
        else:
            victim = rng.choice([self.name, *(worker.name for worker in world.workers)])
            round_ = min(world.plan.rounds - 1, max((state.round for state in states), default=0))
            world.injected["vandalised_rollouts"] += 1
            place = self._place(RoundKey(round_ + rng.randrange(2)), victim)
            world.vandalised.add(place)
            self.put(place, rubbish)
        if self.acts_left:
            world.after(rng.expovariate(0.1), self._act)


class Crowd(Bystander):
    """Names that register, ever new ones or many that beat on, and never publish anything."""

    MOST = 12

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        rng = world.rng
        self._first = rng.choice(["0-stranger", "stranger"])  # before all others by name, or after them
        self._status = STARTING if rng.random() < 0.2 else ACTIVE
        self._at_once = rng.randint(2, self.MOST) if rng.random() < 0.5 else 0
        self._every = world.plan.heartbeat if self._at_once else rng.uniform(1.0, 6.0)
        self._count = 0

    def start(self) -> None:
        self._count += 1
        for name in [f"{self._first}-{n}" for n in range(self._at_once)] or [f"{self._first}-{self._count}"]:
            self.world.laws.strangers.names.add(name)
            self.register(name, self._count, status=self._status)
        self.world.after(self._every, self.start)


class Forger(Bystander):
    """Writes state files that no coordinator has written: once, now and then, or again and again for a while."""

    FAR = 10**6

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        rng = world.rng
        self._left, self._apart = rng.choice([(1, 1.0), (rng.randint(2, 8), rng.uniform(2.0, 15.0)), (40, 1.0)])
        self._writer = rng.choice([self.name, "nobody", "coordinator0", "node00"])

    def start(self) -> None:
        if self._writer == self.name:
            self.register(self.name, 1, role="coordinator")
        self.world.after(self.world.rng.uniform(1.0, 40.0), self._forge)

    def _forge(self) -> None:
        world, rng, now = self.world, self.world.rng, self.round_now()
        last = world.plan.rounds
        round_ = rng.choice([now, now + 1, now + last // 2, last - 1, last, self.FAR])
        state = StateFile(
            round=round_,
            stage=0,
            created_at=self.wall(),
            updated_at=self.wall(),
            updated_by=self._writer,
            experiment_name=EXPERIMENT,
            max_rounds=max(round_, last),
            finished=rng.random() < 0.4,
            held=rng.random() < 0.2,
            round_interval=rng.choice([world.plan.interval, 1e12, 1e-3]),
        )
        world.injected["forged_states"] += 1
        self.put(keys.STATE, encode(state))
        self._left -= 1
        if self._left:
            world.after(self._apart, self._forge)


class Sybils(Bystander):
    """Fakes that beat, and have rewards for rounds to come: bare, malformed, or with rollouts that hold nothing."""

    AHEAD = 15

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        rng = world.rng
        self._names = [f"sybil-{n}" for n in range(rng.randint(1, 2 * world.plan.workers))]
        self._kind = rng.choice(["malformed", "bare", "published"])
        self._until = rng.uniform(20.0, 100.0) if self._kind == "published" else float("inf")
        self._beat = 0

    def start(self) -> None:
        """Beat; now and then, more rewards."""
        world = self.world
        self._beat += 1
        for name in self._names:
            self.register(name, self._beat)
        if self._beat % 10 == 1:
            self._reward()
        if world.now < self._until:
            world.after(world.plan.heartbeat, self.start)

    def _reward(self) -> None:
        world, now = self.world, self.round_now()
        strangers = world.laws.strangers
        if self._kind == "published":
            strangers.have_earned = True
        else:
            strangers.names.update(self._names)
        for key, name in ((RoundKey(r), name) for r in range(now, now + self.AHEAD) for name in self._names):
            reward = RewardFile(round=key.round, stage=0, reward=1.0, peer_id=name, submitted_at=self.wall())
            self.put(keys.reward(key, name), b"x" if self._kind == "malformed" else encode(reward))
            if self._kind == "published":
                file = RolloutFile(peer_id=name, round=key.round, stage=0, timestamp=self.wall(), rollouts={})
                self.put(keys.rollout(key, name), world.rng.choice([b"x", encode(file)]))


class Obstructer(Bystander):
    """Puts a prefix where a node is about to write a file, and a file where it saves; what lies there stays."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._left = world.rng.randint(1, 30)

    def start(self) -> None:
        self._obstruct()
        self._left -= 1
        if self._left:
            self.world.after(self.world.rng.expovariate(0.5), self.start)

    def _obstruct(self) -> None:
        rng, place = self.world.rng, self.world.memory.open()
        node = rng.choice([*self.world.workers, *self.world.coordinators]).name
        key = RoundKey(self.round_now() + rng.randrange(3))
        files = [keys.rollout(key, node), keys.reward(key, node), keys.completions(key.round, node), keys.metrics(node)]
        for written_again in (keys.peer(node), keys.STATE):
            if rng.random() < 0.1:
                self.put_away(written_again)
                files = [written_again]
        target = rng.choice([*files, keys.checkpoint(key.round, node)])
        if place.stat(target) is None:
            self.world.injected["obstructions"] += 1
            self.put(target if target.startswith(keys.CHECKPOINTS) else f"{target}/below", b"junk")


class Claimant(Bystander):
    """Writes over a node's registration: with a claim that is older or higher and lies there, or one that beats."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        rng = world.rng
        self.victim = rng.choice([*world.workers, *world.coordinators])
        self.beats = rng.random() < 0.25
        self._apart = world.plan.heartbeat if self.beats else rng.uniform(0.5, 8.0)
        self._left = rng.randint(1, 12)
        self._own = rng.random() < 0.3 and not self.beats
        self._beat = rng.choice([0, 7, HIGHEST_BEAT]) if not self.beats else 1
        self._status = rng.choice([ACTIVE, ACTIVE, STARTING, STOPPED]) if not self.beats else ACTIVE
        self.last_at = 0.0
        """When it last beat."""
        world.laws.strangers.claimants.append(self)

    def start(self) -> None:
        self.world.after(self.world.rng.uniform(0.0, 40.0), self._claim)

    def _claim(self) -> None:
        victim, role = self.victim, "coordinator" if self.victim.coordinates else "worker"
        there = read_peer(Run(EXPERIMENT, self.world.memory.open()), victim.name)
        claim = msgspec.structs.replace(
            there or PeerFile(peer_id=victim.name, registered_at=0.0, node_role=role),
            registered_at=0.0,
            beat=self._beat,
            last_seen=self.wall(),
            status=self._status,
            incarnation=there.incarnation if there and self._own else "older",
            host="elsewhere",
            pid=1,
        )
        self.world.injected["beating_claims" if self.beats else "claims"] += 1
        self.put(keys.peer(victim.name), encode(claim))
        self._beat += self.beats
        self.last_at = self.world.now
        self._left -= 1
        if self._left:
            self.world.after(self._apart, self._claim)


VILLAINS: dict[str, type[Bystander]] = {
    "liars": Liar,
    "vandals": Vandal,
    "crowds": Crowd,
    "forgers": Forger,
    "sybils": Sybils,
    "obstructers": Obstructer,
    "claimants": Claimant,
}
"""By the fault that brings one."""
