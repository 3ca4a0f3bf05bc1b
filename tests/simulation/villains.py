"""Nodes that mean no good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.records.liveness import ACTIVE
from swarm.types import RoundKey
from swarm.wire.messages import PeerFile
from tests.simulation.folder import RolloutsFile, State
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class Liar(Process):
    """Registers as a worker and beats, and does nothing else, ever."""

    def begin(self) -> None:
        self._beat = 0
        self._send_beat()

    def _send_beat(self) -> None:
        self._beat += 1
        self.world.folder.beat(
            self.world.now,
            PeerFile(
                peer_id=self.name,
                registered_at=self.wall,
                node_role="worker",
                beat=self._beat,
                last_seen=self.wall,
                status=ACTIVE,
                incarnation="liar",
            ),
        )
        self.later(self.world.plan.heartbeat, self._send_beat)


class Vandal(Process):
    """Writes rubbish over the state file while an experiment runs, and into rounds under anybody's name."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.acts_left = world.rng.randrange(1, 12)

    def begin(self) -> None:
        self.later(self.world.rng.expovariate(0.1), self._act)

    def _act(self) -> None:
        rng, folder = self.world.rng, self.world.folder
        self.acts_left -= 1
        if rng.random() < 0.5:
            if folder.states and not any(state.finished for state in folder.states):
                self.world.injected["vandalised_states"] += 1
                self.world.note(self.name, "vandalises", "the state file")
                folder.states.append(State(self.world.now, self.name, RoundKey(0), torn=True))
        else:
            victim = rng.choice([self.name, *(node.name for node in self.world.workers)])
            round_ = min(self.world.plan.rounds - 1, max((s.key.round for s in folder.states), default=0))
            key = RoundKey(round_ + rng.randrange(2))
            self.world.injected["vandalised_rollouts"] += 1
            self.world.note(self.name, "vandalises", (key, victim))
            folder.put_rollouts(RolloutsFile(self.world.now, self.name, key, victim, "rubbish", ()))
        if self.acts_left:
            self.later(rng.expovariate(0.1), self._act)
