"""Whoever else is there: bystanders that nothing befalls, and among them nodes that mean no good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.records.liveness import ACTIVE
from swarm.store.faults import Step
from swarm.store.faulty import FaultyStore
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile
from tests.simulation.hosts import Host

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


class Liar(Bystander):
    """Registers as a worker and beats, and does nothing else, ever."""

    _beat = 0

    def start(self) -> None:
        self._beat += 1
        peer = PeerFile(
            peer_id=self.name,
            registered_at=self.wall(),
            node_role="worker",
            beat=self._beat,
            last_seen=self.wall(),
            status=ACTIVE,
            incarnation="liar",
        )
        self.put(keys.peer(self.name), encode(peer))
        self.world.after(self.world.plan.heartbeat, self.start)


class Vandal(Bystander):
    """Writes rubbish over the state file while an experiment runs, and into rounds under anybody's name."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.acts_left = world.rng.randrange(1, 12)

    def start(self) -> None:
        self.world.after(self.world.rng.expovariate(0.1), self._act)

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
            self.put(keys.rollout(RoundKey(round_ + rng.randrange(2)), victim), rubbish)
        if self.acts_left:
            world.after(rng.expovariate(0.1), self._act)
