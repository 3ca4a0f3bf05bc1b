"""What strangers who write into the place may cost the honest: laws of clock, waiting and endings.

every state that a coordinator writes ──▶ no further than honest rewards explain
every round that a worker begins ───────▶ none left out for a clock that nobody kept
every end of a worker ──────────────────▶ its rounds are done, or a coordinator has said that all are
every wait of a machine ────────────────▶ names that never publish cost a life MOST_ABSENCES rounds together
every two seconds ──────────────────────▶ where a coordinator lives, no stranger's state stays
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm.node.base.attendance import MOST_ABSENCES, TRACES
from swarm.node.coordinator.coordinator_machine import CoordinatorLook, Decision, WriteState
from swarm.node.worker import events as m
from swarm.node.worker.worker_machine import GATHER_SHARE, WorkerMachine
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import decode
from swarm.wire.messages import StateFile

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.laws import Laws
    from tests.simulation.nodes import CoordinatorHost, WorkerHost
    from tests.simulation.villains import Claimant
    from tests.simulation.world import World

BOUND_RESTORED = 30.0
"""Seconds for which a state that no coordinator wrote may stay: a doubt of three beats, looks, refused writes."""
BOUND_GIVEN_WAY = 60.0
"""Seconds after the last beat of somebody who truly claimed a node's name: it is started again within 40."""


@dataclass
class Loss:
    """Of one life of a machine: what it lost to names that never publish."""

    rounds: int = 0
    seconds: float = 0.0
    since: float | None = None
    """When it was found to wait for such names alone."""

    def passes(self, now: float, *, waits: bool, counted: bool) -> None:
        if self.since is not None and counted:
            self.seconds += now - self.since
        self.since = now if waits else None


class StrangerLaws:
    """Watches one world."""

    def __init__(self, world: World, laws: Laws) -> None:
        self._world, self._laws = world, laws
        self.names: set[str] = set()
        """Names that never publish."""
        self.have_earned = False
        """Strangers have published well-formed rewards with rollouts: they have a say, unless workers are named."""
        self.furthest = -1
        """The last round that an honest worker has a reward for."""
        self.written: StateFile | None = None
        """The state that a coordinator wrote last."""
        self.claimants: list[Claimant] = []
        self._states: set[bytes] = set()
        self._clock = RoundKey(0)
        """The furthest that a coordinator has written."""
        self._over = False
        self._opened: dict[str, RoundKey] = {}
        """Coordinator -> the round that it opened last."""
        self._rewards: set[RoundKey] = set()

    # ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────────
    def puts(self, host: Host, key: str, data: bytes) -> None:
        """An honest node is about to write."""
        if key.startswith(keys.REWARDS):
            round_, stage = (int(part.partition("_")[2]) for part in key.split("/")[1:3])
            self._rewards.add(RoundKey(round_, stage))
            self.furthest = max(self.furthest, round_)
        if key == keys.STATE:
            state = decode(data, StateFile, key)
            self._states.add(data)
            self.written, self._clock = state, max(self._clock, RoundKey(state.round, state.stage))
            self._over |= state.finished
            if state.round > self.furthest + TRACES and not self.anybody_may():
                raise self._laws.broken("the clock is where no honest reward has led it", host.name, state.round)

    def is_genuine(self, state: bytes) -> bool:
        """A coordinator has written it."""
        return state in self._states

    def decided(
        self, coordinator: CoordinatorHost, loss: Loss, look: CoordinatorLook, decision: Decision | None
    ) -> None:
        """A coordinator has looked, and this is what it does."""
        write = decision if isinstance(decision, WriteState) else None
        if write and write.reason == "caught_up" and not (write.key in self._rewards or self.anybody_may()):
            raise self._laws.broken("the clock jumps to where nobody honest is", coordinator.name, write.key.round)
        missing = (look.live | look.coming) - look.submitted
        some_have = bool((look.live & look.submitted) - self.names)
        strangers_alone = self._its_round(coordinator, write) and some_have and bool(missing) and missing <= self.names
        loss.rounds += bool(write and write.reason == "interval" and strangers_alone)
        loss.passes(self._world.now, waits=strangers_alone and not write, counted=self._undisturbed(coordinator, loss))
        self._bounded(coordinator, loss, self._world.plan.interval)

    def _its_round(self, coordinator: CoordinatorHost, write: WriteState | None) -> bool:
        """It looked at a round that it had opened itself: not at one of another coordinator, nor before the first."""
        opened = self._opened.get(coordinator.name)
        if write and write.reason != "restored":
            self._opened[coordinator.name] = write.key
        machine = coordinator.machine
        return opened is not None and machine is not None and (write is not None or machine.key == opened)

    def anybody_may(self) -> bool:
        """Strangers have earned a say in where the clock is."""
        return self.have_earned and not self._world.plan.named

    def kept(self) -> None:
        """Where a coordinator has opened a round, a stranger's state is written over."""
        world, strange_since = self._world, None
        for version in reversed(world.place.history.get(keys.STATE, ())):
            if version.data is not None and self.is_genuine(version.data):
                break
            strange_since = version
        if strange_since is None:
            return
        for coordinator in world.coordinators:
            connected = world.network.connected_since(coordinator.name, strange_since.writer)
            since = max(coordinator.active_since, coordinator.disturbed_at, connected, strange_since.time)
            opened = coordinator.machine is not None and coordinator.machine.key is not None
            if opened and coordinator.keeps_the_clock and world.now - since > BOUND_RESTORED:
                raise self._laws.broken(f"a stranger's state stays since {strange_since.time:.1f} s", coordinator.name)

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def handled(self, worker: WorkerHost, machine: WorkerMachine, loss: Loss, instruction: list[m.Instruction]) -> None:
        """A worker's machine has taken an event."""
        for step in instruction:
            if isinstance(step, m.Generate) and step.skipped:
                self._skips(worker, step.key)
            if isinstance(step, m.Train) and step.timed_out:
                missing = step.awaited - step.heard
                loss.rounds += bool(missing) and missing <= self.names
        waits = machine.phase is m.Phase.GATHERING and self._waits_for_strangers(machine)
        loss.passes(self._world.now, waits=waits, counted=self._undisturbed(worker, loss))
        self._bounded(worker, loss, self._world.plan.interval * GATHER_SHARE)

    def _waits_for_strangers(self, machine: WorkerMachine) -> bool:
        assert machine.key
        missing = machine._live - machine._sources(machine.key).keys()
        return bool(missing) and missing <= self.names

    def _undisturbed(self, host: Host, loss: Loss) -> bool:
        return loss.since is not None and host.disturbed_at < loss.since

    def _bounded(self, host: Host, loss: Loss, longest: float) -> None:
        """As attendance.py has it; the moment at which it ends is seen a heartbeat later."""
        seconds = MOST_ABSENCES * longest + 2 * self._world.plan.heartbeat
        if loss.rounds > MOST_ABSENCES or loss.seconds > seconds:
            lost = f"{loss.rounds} rounds and {loss.seconds:.0f} s"
            raise self._laws.broken(f"names that never publish cost it {lost} in one life", host.name)

    def _skips(self, worker: WorkerHost, key: RoundKey) -> None:
        """To where a coordinator's clock was; while none lives, to where rewards bear the state file out."""
        reach = (
            self._clock.round if self._laws.keeper_seen_by(worker) else max(self._clock.round, self.furthest + TRACES)
        )
        if key.round > reach and not self.anybody_may():
            raise self._laws.broken("it leaves out rounds for a clock that nobody kept", worker.name, key.round)

    def ends(self, worker: WorkerHost) -> None:
        """By itself, and well."""
        done = worker.machine.rounds_done if worker.machine else 0
        if not self._over and done < self._world.plan.rounds:
            raise self._laws.broken(f"it ends after {done} rounds, and nobody has said that all are done", worker.name)

    def may_give_way(self, host: Host) -> bool:
        """Somebody else truly beats in its name, or did a moment ago; a stale read may show such a beat much later."""
        now, stale = self._world.now, self._world.injected["stale_reads"]
        beating = [claimant for claimant in self.claimants if claimant.beats and claimant.victim is host]
        return any(stale or now < claimant.last_at + BOUND_GIVEN_WAY for claimant in beating)
