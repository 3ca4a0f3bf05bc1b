"""A coordinator, or one that stands by: CoordinatorMachine decides, this carries out in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.node.coordinator.coordinator_machine import (
    CoordinatorMachine,
    FolderClock,
    Look,
    StepDown,
    WriteState,
    majority_front,
)
from swarm.records.liveness import ACTIVE, STANDBY, STOPPED, Liveness
from swarm.types import RoundKey
from swarm.wire.messages import PeerFile
from tests.simulation.folder import Reward, State
from tests.simulation.network import Reader
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class CoordinatorNode(Process):
    """Takes the clock when nobody else keeps it, and leaves it to whoever has the older claim."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.machine: CoordinatorMachine | None = None
        self.in_office_since = 0.0

    @property
    def keeps_the_clock(self) -> bool:
        """It is active, and could say so."""
        return self.running and self.machine is not None and self.world.now >= self.paused_until and self.disk_works

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def begin(self) -> None:
        folder = self.world.folder
        self.machine = None
        self._liveness = Liveness(self.world.plan.timeout)
        self._claims: dict[str, tuple[float, str]] = {}
        self._rewards: Reader[Reward] = Reader(folder.rewards)
        self._submitted: dict[RoundKey, set[str]] = {}
        self._furthest: dict[str, RoundKey] = {}
        self._beat, self._status, self._registered_at = 0, STANDBY, self.wall
        self._beaten_at = self.world.now
        self._send_beat()
        self.later(self.world.rng.uniform(0.0, 0.5), self._look)

    def end(self) -> None:
        self._status = STOPPED
        self._send_beat()
        super().end()

    # ── what it sees ────────────────────────────────────────────────────────────────────────────────────────────────
    def _look(self) -> None:
        self.later(self.world.rng.uniform(0.4, 1.0), self._look)
        if self.world.now - self._beaten_at >= self.world.plan.heartbeat:
            self._send_beat()
        self._take_in()
        if self.machine is None:
            self._stand_by()
        if self.machine is not None and self.running:
            self._keep_time(self.machine)

    def _take_in(self) -> None:
        world, horizon = self.world, self.horizon
        for reward in self._rewards.fresh(horizon, world.now, world.lateness()):
            self._submitted.setdefault(reward.key, set()).add(reward.writer)
            self._furthest[reward.writer] = max(reward.key, self._furthest.get(reward.writer, reward.key))
        now, wall = self.monotonic, self.wall
        for peer in world.folder.peers_seen(horizon):
            self._liveness.observe(peer, now, wall)
            if peer.node_role == "coordinator":
                self._claims[peer.peer_id] = (peer.registered_at, peer.peer_id)

    def _rivals(self) -> frozenset[str]:
        return self._liveness.live(self.monotonic, role="coordinator") - {self.name}

    def _stand_by(self) -> None:
        """Nobody's silence is judged before it has lasted for the time-out."""
        plan, state = self.world.plan, self.world.state_seen_by(self, stale=False)
        if state and state.finished:
            return self.end()
        if self.world.now - self.started_at < plan.timeout or self._rivals():
            return None
        machine = CoordinatorMachine(
            max_rounds=plan.rounds, max_stages=plan.stages, interval=plan.interval, expected_workers=plan.workers
        )
        key = self.resume_point(state)
        self.world.laws.takes_over(self, key, None if state and state.torn else state, self._submitted)
        write = machine.resume(key)
        self.machine, self.in_office_since = machine, self.world.now
        self._status = ACTIVE
        self._send_beat()
        if write:
            self._write(write)
        elif state or key > RoundKey(0):
            self._write(WriteState(key, finished=False, reason="resumed"), held=True)
        return None

    def resume_point(self, state: State | None) -> RoundKey:
        """As swarm.node.coordinator.resume: the state file, and where most of those came that ever submitted."""
        reached = sorted(self._furthest.values(), reverse=True)
        traces = min(reached[len(reached) // 2], RoundKey(self.world.plan.rounds)) if reached else RoundKey(0)
        return traces if state is None or state.torn else max(state.key, traces)

    def _keep_time(self, machine: CoordinatorMachine) -> None:
        while self.machine is machine and self.running and self.world.now >= self.paused_until:
            look = self._look_of(machine)
            with self.world.laws.of(self):
                decision = machine.handle(look)
            self.world.laws.decided(self, look, decision)
            if isinstance(decision, StepDown):
                self.world.note(self.name, "steps down for", decision.rival)
                self.machine, self.started_at, self._status = None, self.world.now, STANDBY
                self._send_beat()
            elif decision is not None:
                if not self._write(decision) or decision.reason == "restored":
                    return  # whatever keeps the file from saying so has it until the next look
            else:
                if machine.finished and look.clock and look.clock.finished:
                    self.end()
                return

    def _look_of(self, machine: CoordinatorMachine) -> Look:
        now = self.monotonic
        live = self._liveness.live(now, role="worker")
        key = machine.round_in_hand
        state = self.world.state_seen_by(self)
        before = (self.submitted_in(RoundKey(r)) for r in range(max(0, key.round - 2), key.round))
        claim = (self._registered_at, self.name)
        writer = {state.writer} if state and not state.torn else set[str]()
        older = sorted(rival for rival in self._rivals() & writer if self._claims[rival] < claim)
        return Look(
            now,
            live,
            self.submitted_in(key),
            FolderClock(state.key, state.finished, state.held) if state and not state.torn else None,
            majority_front(key, live, self.submitted_in),
            frozenset[str]().union(*before),
            older[0] if older else None,
        )

    def submitted_in(self, key: RoundKey) -> frozenset[str]:
        return frozenset(self._submitted.get(key, ()))

    # ── what it writes ──────────────────────────────────────────────────────────────────────────────────────────────
    def _write(self, write: WriteState, *, held: bool = False) -> bool:
        """True if it is there at once: a pause may have come in between, or another coordinator be ahead."""
        results: list[bool] = []
        there = self.world.state_seen_by(self, stale=False)
        if there and not there.torn and there.key > write.key:
            return False

        def put() -> State:
            state = State(self.world.now, self.name, write.key, write.finished, held)
            self.world.folder.states.append(state)
            self.world.note(self.name, "state", (write.key, write.reason))
            return state

        self.carry_out(self.publish(put), results.append)
        return results == [True]

    def _send_beat(self) -> None:
        self._beat += 1
        self._beaten_at = self.world.now
        if self.disk_works:
            peer = PeerFile(
                peer_id=self.name,
                registered_at=self._registered_at,
                node_role="coordinator",
                beat=self._beat,
                last_seen=self.wall,
                status=self._status,
                incarnation=str(self.life),
            )
            self.world.folder.beat(self.world.now, peer)
