"""One training node over all its lives: WorkerMachine decides, this carries out in virtual time.

What it does of its own is what swarm.node.{worker,lookout,intake,round_steps} do around the machine, in few words: it
looks into the folder, tells what it sees, keeps back in order what a full disk refuses, and goes on after its death
from its checkpoint, its rows and its published rollouts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from swarm.node.worker import events as m
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.records.liveness import ACTIVE, STARTING, STOPPED, Liveness
from swarm.types import RoundKey
from swarm.wire.messages import PeerFile
from tests.simulation.draws import external_groups_of, own_groups
from tests.simulation.folder import Checkpoint, Reward, RolloutsFile, Row
from tests.simulation.network import Reader
from tests.simulation.process import Process, Write
from tests.simulation.redoing import rounds_to_redo
from tests.unit.node.checked_worker import CheckedWorker

if TYPE_CHECKING:
    from tests.simulation.world import World


class WorkerNode(Process):
    """Publishes, trains, submits; its `weights` are the rounds whose updates they hold."""

    def __init__(self, world: World, name: str, *, slowness: float, staleness: int) -> None:
        super().__init__(world, name)
        self.slowness = slowness
        self.staleness = staleness
        self.finish: m.Finish | None = None
        self.progress_at = 0.0
        """When it last began or ended a round."""
        self.checked: CheckedWorker
        self.weights: list[int] = []

    @property
    def machine(self) -> WorkerMachine:
        return self.checked.machine

    @property
    def finished(self) -> bool:
        return self.finish is not None and self.finish.reason == "finished"

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def begin(self) -> None:
        world, plan = self.world, self.world.plan
        self.checked = CheckedWorker(
            external_groups=plan.external_groups,
            round_interval=plan.interval,
            checkpoint_interval=plan.checkpoint_interval,
            staleness=self.staleness,
            own_clock=plan.own_clock,
            max_rounds=plan.rounds,
            expected_workers=plan.workers,
            patience=plan.patience,
            window=plan.window,
        )
        self.finish = None
        self.progress_at = world.now
        self._liveness = Liveness(plan.timeout)
        self._rollouts: Reader[RolloutsFile] = Reader(world.folder.rollouts)
        self._pool: dict[RoundKey, dict[str, RolloutsFile]] = {}
        self._unlisted: dict[RoundKey, list[RolloutsFile]] = {}
        self._published: dict[RoundKey, set[str]] = {}
        self._made: dict[RoundKey, RolloutsFile] = {}
        self._writes: deque[Callable[[], Write]] = deque()
        self._saving = False
        self._flushing: list[Callable[[], None]] | None = None
        self._woken_for: float | None = None
        self._beat, self._status, self._registered_at = 0, STARTING, self.wall
        self._open_round: RoundKey | None = None
        self._told_state: tuple[RoundKey, bool] | None = None
        self._send_beat()
        self.later(world.rng.uniform(0.0, 1.0), self._look)
        self.later(world.rng.uniform(0.5, 2.0) * self.slowness**0.5, self._loaded)

    def _loaded(self) -> None:
        """Go on where the folder says: the checkpoint's weights, and the updates of the rows that came after it."""
        self.sync_all()
        rows = self.world.folder.rows_of(self.name)
        checkpoint = self.world.folder.newest_checkpoint(self.name)
        redone = rounds_to_redo(rows, checkpoint)
        self.weights = [*(checkpoint.weights if checkpoint else ()), *redone]
        next_round = max([checkpoint.rounds_done if checkpoint else 0, *(row.round + 1 for row in rows)])
        if rows:
            self._submit_reward(rows[-1])
        self.world.laws.resumed(self, next_round)
        self._status = ACTIVE
        self._send_beat()
        self._flush(lambda: self.tell(m.Ready(next_round, unsaved=bool(redone))))

    def stop(self) -> None:
        """Somebody asks it to end."""
        if self.running and not self.checked.done:
            self.later(0.0, lambda: self.tell(m.Stop(self.monotonic)))

    def end(self) -> None:
        self._status = STOPPED
        self._send_beat()
        super().end()

    # ── what it sees ────────────────────────────────────────────────────────────────────────────────────────────────
    def _look(self) -> None:
        rng = self.world.rng
        self.later(rng.uniform(0.8, 1.8), self._look)
        if self._writes and self.disk_works and self._flushing is None:
            self._flush(lambda: None)
        if self.checked.done or not self.running:
            return
        self._look_at_state()
        if self.world.plan.external_groups:
            self._look_at_rollouts()
        if self.monotonic - self._looked_at_peers >= self.world.plan.heartbeat:
            self._send_beat()
            self._look_at_peers()
        self.world.laws.still_goes_on(self)

    _looked_at_peers = float("-inf")

    def _look_at_state(self) -> None:
        state = self.world.state_seen_by(self)
        if state is None or state.torn or state.held:
            return
        self._open_round = state.key
        plan = self.world.plan
        self.tell(m.ClockSeen(state.key, state.finished, self.monotonic, plan.interval, plan.rounds))

    def _look_at_rollouts(self) -> None:
        rng, faults = self.world.rng, self.world.faults
        for file in self._rollouts.fresh(self.horizon, self.world.now, self.world.lateness()):
            if file.owner != self.name:
                self._published.setdefault(file.key, set()).add(file.owner)
                self._unlisted.setdefault(file.key, []).append(file)
        listed = self._listed()
        files = [file for key in sorted(self._unlisted.keys() & listed) for file in self._unlisted.pop(key)]
        if faults.reordered and len(files) > 1 and rng.random() < faults.reordered:
            self.world.injected["reordered"] += 1
            rng.shuffle(files)
        for file in files:
            pool = self._pool.setdefault(file.key, {})
            if file.owner not in pool and not self.checked.done:
                pool[file.owner] = file
                self.tell(m.PeerArrived(file.key, file.owner, self.monotonic))
                if faults.duplicated and rng.random() < faults.duplicated:
                    self.world.injected["duplicated"] += 1
                    self.tell(m.PeerArrived(file.key, file.owner, self.monotonic))

    def _listed(self) -> set[RoundKey]:
        listed = {key for key in (self._open_round, self.machine.key) if key}
        if self.machine.on_own_clock and self.machine.key:
            mine, window = self.machine.key.round, self.world.plan.window
            listed |= {key for key in self._unlisted if abs(key.round - mine) <= window}
        return listed

    def _look_at_peers(self) -> None:
        self._looked_at_peers = now = self.monotonic
        wall = self.wall
        for peer in self.world.folder.peers_seen(self.horizon):
            self._liveness.observe(peer, now, wall)
        if self.checked.done:
            return
        live = self._liveness.live(now, role="worker") - {self.name}
        self.tell(m.PeersLive(live, now, self._publishing()))
        if not self.checked.done:
            self.tell(m.CoordinatorSeen(bool(self._liveness.live(now, role="coordinator")), now))

    def _publishing(self) -> frozenset[str]:
        mine = self.machine.key or RoundKey(0)
        recent = (mine.round - 1, mine.round)
        return frozenset().union(*(peers for key, peers in self._published.items() if key.round in recent))

    def _send_beat(self) -> None:
        self._beat += 1
        if self.disk_works:
            peer = PeerFile(
                peer_id=self.name,
                registered_at=self._registered_at,
                node_role="worker",
                beat=self._beat,
                last_seen=self.wall,
                status=self._status,
                incarnation=str(self.life),
            )
            self.world.folder.beat(self.world.now, peer)

    # ── what it does ────────────────────────────────────────────────────────────────────────────────────────────────
    def tell(self, event: m.Event) -> None:
        with self.world.laws.of(self):
            instructions = self.checked.handle(event)
        self.world.stepped(self, event, instructions)
        for instruction in instructions:
            self._carry_out(instruction)
        wake_at = self.machine.wake_at
        if wake_at is not None and wake_at != self._woken_for:
            self.later(self.until(wake_at) + 1e-6, self._wake)
        self._woken_for = wake_at

    def _wake(self) -> None:
        if self.machine.wake_at is not None and self.monotonic >= self.machine.wake_at:
            self._woken_for = None
            self.tell(m.Tick(self.monotonic))

    def _carry_out(self, instruction: m.Instruction) -> None:
        rng = self.world.rng
        match instruction:
            case m.Generate(key):
                self.progress_at = self.world.now
                self._forget_before(key)
                work = 0.0 if key in self._made else rng.uniform(0.5, 2.0) * self.slowness
                self.later(work, self._generated, key)
            case m.GenerateAhead(key):
                self.later(rng.uniform(0.5, 2.0) * self.slowness, self._generated_ahead, key)
            case m.Score(key):
                self.later(rng.uniform(0.0, 0.2), self.tell, m.Scored(key))
            case m.Publish(key):
                self._publish(key)
            case m.Train():
                self.later(rng.uniform(0.2, 1.0) * self.slowness, self._train, instruction)
            case m.Submit(key):
                self._submit(key)
            case m.Save(rounds_done):
                self.later(0.0, self._save, Checkpoint(rounds_done, tuple(self.weights)))
            case m.Finish():
                self._leave(instruction)

    def _forget_before(self, key: RoundKey) -> None:
        oldest = RoundKey(max(0, key.round - self.world.plan.window))
        for kept in (self._pool, self._unlisted, self._published):
            for old in [k for k in kept if k < oldest]:
                del kept[old]
        self._made = {k: made for k, made in self._made.items() if k >= key}

    def _generated(self, key: RoundKey) -> None:
        if key not in self._made:
            self._made[key] = self._draw(key)
        self.tell(m.Generated(key))

    def _generated_ahead(self, key: RoundKey) -> None:
        self._made.setdefault(key, self._draw(key))

    def _draw(self, key: RoundKey) -> RolloutsFile:
        """What it published before it died stays; everything else is drawn now."""
        before = self.world.folder.rollouts_of(self.name, key)
        if before and before.writer == self.name:
            return before
        content = f"{self.name}'s of its life {self.life}, after {len(self.weights)} updates"
        return RolloutsFile(0.0, self.name, key, self.name, content, own_groups(self.name, key))

    def _publish(self, key: RoundKey) -> None:
        file = self._made[key]
        if self.world.folder.rollouts_of(self.name, key) is not file:
            self._writes.append(lambda: self._write_rollouts(file))
        else:
            self.world.laws.acknowledged(self.name, file)
        self.world.laws.publish_tried(self, key)
        self._flush(lambda: self._published_it(key))

    def _write_rollouts(self, file: RolloutsFile) -> Write:
        def put() -> RolloutsFile:
            file.time = self.world.now
            self.world.laws.publishes(self.name, file)
            self.world.folder.put_rollouts(file)
            return file

        if done := (yield from self.publish(put)):
            self.world.laws.acknowledged(self.name, file)
        return done

    def _published_it(self, key: RoundKey) -> None:
        self._look_at_peers()
        self.tell(m.Published(key, self.monotonic))

    def _train(self, train: m.Train) -> None:
        self.trained_on = self.world.laws.sampled(self, train, self._pool, external_groups_of)
        self.weights.append(train.key.round)
        self.world.laws.stepped(self, train.key)
        self.tell(m.Trained(train.key))

    trained_on: tuple[str, ...] = ()

    def _submit(self, key: RoundKey) -> None:
        row = Row(key, f"{self._made[key].content}; {' '.join(self.trained_on)}", self.trained_on)
        self._writes.append(lambda: self._write_row(row))
        self._submit_reward(row)
        self._flush(lambda: self._submitted(key))

    def _write_row(self, row: Row) -> Write:
        def put() -> Row:
            self.world.laws.writes_row(self.name, row)
            self.world.folder.rows.setdefault(self.name, []).append(row)
            return row

        return self.append(put)

    def _submit_reward(self, row: Row) -> None:
        reward = Reward(0.0, self.name, row.key, row.value)
        self._writes.append(lambda: self._write_reward(reward))

    def _write_reward(self, reward: Reward) -> Write:
        def put() -> Reward:
            reward.time = self.world.now
            self.world.laws.rewarded(self.name, reward)
            self.world.folder.put_reward(reward)
            return reward

        if self.world.folder.reward_of(self.name, reward.key):
            return True
        return (yield from self.publish(put))

    def _submitted(self, key: RoundKey) -> None:
        self.progress_at = self.world.now
        self.tell(m.Submitted(key))

    def _save(self, checkpoint: Checkpoint) -> None:
        """None says more than the rows on disk, and no two are written at once: what is due too early is left out.

        The last one waits instead: for the rows, and for the one before it.
        """
        too_early = bool(self._writes or self._flushing is not None or self._saving)
        if too_early and self.machine.phase is not m.Phase.SAVING:
            self.tell(m.SaveFailed(checkpoint.rounds_done))
        elif too_early:
            self._flush(lambda: None)
            self.later(1.0, self._save, checkpoint)
        else:
            self._saving = True
            self.later(self.world.rng.uniform(0.0, 1.0), self._write_checkpoint, checkpoint)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        def put() -> Checkpoint:
            self.world.folder.checkpoints.setdefault(self.name, []).append(checkpoint)
            return checkpoint

        def saved(done: bool) -> None:
            self._saving = False
            self.tell((m.Saved if done else m.SaveFailed)(checkpoint.rounds_done))

        self.carry_out(self.publish(put), saved)

    def _leave(self, finish: m.Finish) -> None:
        """Not before everything that was kept back is written."""
        self._flush(lambda: None)
        if self._writes or self._flushing is not None:
            self.later(1.0, self._leave, finish)
            return
        self.finish = finish
        self.end()

    # ── what waits to be written ────────────────────────────────────────────────────────────────────────────────────
    def _flush(self, then: Callable[[], None]) -> None:
        """Write what is kept back, in order, until something cannot be written; then go on, whatever came of it."""
        if self._flushing is not None:
            self._flushing.append(then)
            return
        self._flushing = [then]
        self.carry_out(self._write_outbox(), self._flushed)

    def _write_outbox(self) -> Write:
        while self._writes:
            if not (yield from self._writes[0]()):
                return False
            self._writes.popleft()
        return True

    def _flushed(self, _: bool) -> None:
        waiting, self._flushing = self._flushing or [], None
        for then in waiting:
            then()
