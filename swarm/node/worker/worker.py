"""The worker daemon: carries out what WorkerMachine decides.

                 ┌────────────── one event loop ───────────────┐        ┌─ compute executor, one thread ─┐
    folder ──▶ wake-ups ─▶ look: state, listings ─▶ Intake      │        │                                │
                 │             │ ClockSeen            │ PeerArrived      │                                │
    peers/ ──▶ heartbeats ─────┴──▶ mailbox ◀─────────┘         │        │                                │
                 │                    │                         │        │                                │
                 │              WorkerMachine ─▶ Generate, GenerateAhead┼▶│ policy.generate                │
                 │                    │          Score  ─▶ scoring children                              │
                 │                    │          Publish ─▶ writes, fsync                                 │
                 │                    │          BeginUpdate ───┼───────▶│ policy.begin_update            │
                 │                    │          Train  ────────┼───────▶│ policy.finish_update           │
                 │                    │          Submit, Save ──┼───────▶│ policy.snapshot                │
                 │                    │                 └─▶ thread, fsync                                 │
                 └─────────────────────────────────────────────┘        └────────────────────────────────┘

Each instruction runs as a task of its own and ends by putting an event into the mailbox, so the loop is free for
peers' files while the executor computes. What is seen: lookout.py; what a round does: round_steps.py; what is done
once more after a kill: redo.py; what waits while the folder refuses: write_queue.py.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from swarm.algo.registry import sampler
from swarm.config import command_line, variable
from swarm.errors import CheckpointError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import Compute, NodeContext
from swarm.node.base.experiment import create_experiment, differences, read_experiment
from swarm.node.base.presence import Presence
from swarm.node.base.write_queue import PATIENCE_AT_STOP, WriteQueue, is_blocked
from swarm.node.sharing.assigned_questions import OTHERS_ARE_REFUSED, AssignedQuestions
from swarm.node.sharing.intake import Intake
from swarm.node.sharing.verification import TaskSource
from swarm.node.worker import events as m
from swarm.node.worker.checkpoints import recover_temporary, restore_newest, save_checkpoint
from swarm.node.worker.ij_schedule import IJSchedule
from swarm.node.worker.lookout import Lookout
from swarm.node.worker.redo import NOTHING_REDONE, Redo, plan_redo
from swarm.node.worker.round_steps import RoundSteps
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.records.liveness import ACTIVE
from swarm.records.read import read_own_rows
from swarm.types import Policy, RoundKey
from swarm.wire.messages import NodeState

logger = get_logger(__name__)

SAVE_PAUSE = 2.0
"""Seconds between attempts at the last checkpoint."""


class Worker:
    """One training node, from registration to its last checkpoint."""

    def __init__(
        self,
        ctx: NodeContext,
        *,
        tasks: Sequence[str],
        load_policy: Callable[[], Policy],
        task_source: TaskSource,
        compute: Compute,
        versions: dict[str, str],
        loop_lag: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`loop_lag`: gives the seconds of the event loop's longest lag since its last call."""
        self._ctx = ctx
        self._settings = settings = ctx.settings
        self._layout = layout = ctx.layout
        self._node_id = node_id = ctx.node_id
        self._clock = clock = ctx.clock
        self._load_policy = load_policy
        self._task_source = task_source
        self._executor = compute
        self._versions = versions
        self._loop_lag = loop_lag
        self._sampler = sampler(settings.sampler)
        self._schedule = IJSchedule(settings, node_id)
        self._machine = WorkerMachine(
            external_groups=settings.most_external_groups,
            round_interval=settings.round_interval,
            checkpoint_interval=settings.checkpoint_interval,
            staleness=settings.staleness,
            own_clock=settings.clock == "own",
            max_rounds=settings.max_rounds,
            expected_workers=settings.expected_workers,
            patience=settings.patience_with_coordinator,
            window=settings.staleness_window,
        )
        self._events, self._mailbox = anyio.create_memory_object_stream[m.Event](math.inf)
        self._presence = Presence(ctx, "worker", model=settings.model[0])
        self._assigned = AssignedQuestions(settings.seed, tasks, settings.profile)
        self._intake = Intake(ctx, self._assigned, task_source, self._on_arrival)
        self._lookout = Lookout(
            settings,
            layout,
            node_id,
            run=ctx.run,
            clock=clock,
            intake=self._intake,
            tell=self._tell,
            working_on=lambda: self._machine.key,
            on_own_clock=lambda: self._machine.on_own_clock,
        )
        self._writes = WriteQueue(ctx)
        self._saving = anyio.CapacityLimiter(1)
        self._said_behind = False
        self._last_save_failing: float | None = None
        self._stop_code: int | None = None
        self._policy: Policy
        self._steps: RoundSteps

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def run(self) -> int:
        """Run until the experiment is finished or somebody stops the node.

        Returns:
            The exit code: 0 finished, or what `stop` was given.

        Raises:
            SwarmError: what ends this node; the folder keeps all that was acknowledged.
        """
        with self._events, self._mailbox:
            async with self._presence.held():
                try:
                    await to_thread.run_sync(recover_temporary, self._layout, self._node_id)
                    await self._live()
                finally:
                    self._writes.report_loss()
        return self._stop_code or 0

    async def _live(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._presence.keep_beating)
            tasks.start_soon(self._writes.deliver)
            tasks.start_soon(self._lookout.watch_folder, tasks)
            tasks.start_soon(self._lookout.watch_peers)
            tasks.start_soon(self._load)
            await self._decide(tasks)
            await self._writes.flush(PATIENCE_AT_STOP)
            tasks.cancel_scope.cancel()

    def stop(self, exit_code: int) -> None:
        """Finish the step, save, end with this exit code."""
        logger.info("node.stopping", exit_code=exit_code, again="ends at once")
        self._stop_code = exit_code
        self._tell(m.Stop(self._clock.monotonic()))

    def _tell(self, event: m.Event) -> None:
        self._events.send_nowait(event)

    async def _on_arrival(self, key: RoundKey, peer: str) -> None:
        self._lookout.arrived(key, peer)
        self._tell(m.PeerArrived(key, peer, self._clock.monotonic()))

    async def _load(self) -> None:
        await self._agree_on_experiment()
        if self._settings.admit == "unverified":
            logger.warning("admission.unverified", consequence="where peers say no origin their answers are believed")
        history = await to_thread.run_sync(read_own_rows, self._layout.metrics_file(self._node_id))
        self._policy = await self._executor.run(self._load_policy)
        state = await self._executor.run(restore_newest, self._layout, self._node_id, self._policy.restore)
        rounds_saved = state.rounds_done if state else 0
        self._steps = self._steps_after(state.rounds_trained if state else 0)
        next_round = max(rounds_saved, await self._steps.continue_from(history.rows))
        redone = await self._redo().carry_out(plan_redo(history.rows, state, self._settings))
        self._presence.model, self._presence.status = self._policy.name, ACTIVE
        await self._presence.beat()
        logger.info(
            "node.ready",
            model=self._policy.name,
            next_round=next_round,
            checkpoint_round=rounds_saved,
            rounds_redone=redone.rounds,
            rounds_lost=redone.lost,
            cumulative_reward=self._steps.cumulative_reward,
        )
        self._tell(m.Ready(next_round, unsaved=redone != NOTHING_REDONE))

    def _steps_after(self, rounds_trained: int) -> RoundSteps:
        return RoundSteps(
            self._settings,
            self._layout,
            self._node_id,
            run=self._ctx.run,
            policy=self._policy,
            rounds_trained=rounds_trained,
            assigned=self._assigned,
            task_source=self._task_source,
            executor=self._executor,
            intake=self._intake,
            writes=self._writes,
            sampler=self._sampler,
            schedule=self._schedule,
            clock=self._clock,
        )

    def _redo(self) -> Redo:
        return Redo(
            self._ctx,
            assigned=self._assigned,
            steps=self._steps,
            policy=self._policy,
            task_source=self._task_source,
            executor=self._executor,
        )

    async def _agree_on_experiment(self) -> None:
        """Nodes may differ on purpose; but who differs by accident should hear of it.

        Without a coordinator the first worker says what the experiment is.
        """
        try:
            experiment = await to_thread.run_sync(read_experiment, self._ctx.run)
            if experiment is None and self._settings.clock == "own":
                await to_thread.run_sync(create_experiment, self._ctx, self._versions)
                experiment = await to_thread.run_sync(read_experiment, self._ctx.run)
        except StoreError as error:
            logger.warning("experiment.unreadable", error=str(error))
            return
        if experiment and (changed := differences(self._settings, experiment)):
            logger.warning("experiment.other_settings", differences=changed, consequence=OTHERS_ARE_REFUSED)

    # ── decide, carry out ───────────────────────────────────────────────────────────────────────────────────────────
    async def _decide(self, tasks: TaskGroup) -> None:
        while self._machine.phase is not m.Phase.DONE:
            event: m.Event | None = None
            with anyio.move_on_after(self._until_wake()):
                event = await self._mailbox.receive()
            on_own_clock = self._machine.on_own_clock
            for instruction in self._machine.handle(event or m.Tick(self._clock.monotonic())):
                self._carry_out(instruction, tasks)
            if self._machine.on_own_clock != on_own_clock:
                self._tell_whose_clock()
            self._presence.phase = self._machine.phase

    def _tell_whose_clock(self) -> None:
        if not self._machine.on_own_clock:
            logger.info("clock.followed", rounds_done=self._machine.rounds_done)
            return
        absent = self._lookout.seconds_without_coordinator()
        since = datetime.fromtimestamp(self._clock.wall() - absent, UTC).isoformat(timespec="seconds")
        logger.warning("clock.own", rounds_done=self._machine.rounds_done, no_coordinator_since=since)

    def _until_wake(self) -> float | None:
        at = self._machine.wake_at
        return None if at is None else max(0.0, at - self._clock.monotonic())

    def _carry_out(self, instruction: m.Instruction, tasks: TaskGroup) -> None:
        match instruction:
            case m.Generate(key):
                self._presence.round, self._presence.stage = key
                generate = partial(self._steps.generate, instruction, on_own_clock=self._machine.on_own_clock)
                tasks.start_soon(self._then, generate, m.Generated(key))
            case m.GenerateAhead(key):
                tasks.start_soon(self._steps.generate_ahead, key)
            case m.Score(key):
                tasks.start_soon(self._then, self._steps.score, m.Scored(key))
            case m.Publish(key):
                tasks.start_soon(self._publish, key, tasks)
            case m.BeginUpdate(key):
                tasks.start_soon(self._steps.begin_update, key)
            case m.Train(key):
                tasks.start_soon(self._then, partial(self._steps.train, instruction), m.Trained(key))
            case m.Submit(key):
                submit = partial(self._steps.submit, len(self._lookout.live_peers()), self._loop_lag())
                tasks.start_soon(self._then, submit, m.Submitted(key))
            case m.Save(rounds_done):
                tasks.start_soon(self._save, rounds_done)
            case m.Finish(reason):
                logger.info(
                    "node.finished", reason=reason, rounds_done=self._machine.rounds_done, **self._way_back(reason)
                )

    def _way_back(self, reason: str) -> dict[str, str]:
        """How to go on, for a node that was stopped; its name may have been made up for it."""
        if reason != "stopped":
            return {}
        return {"resume": command_line({**self._settings.as_environment(), variable("node_id"): self._node_id})}

    async def _then(self, step: Callable[[], Awaitable[None]], event: m.Event) -> None:
        await step()
        self._tell(event)

    async def _publish(self, key: RoundKey, tasks: TaskGroup) -> None:
        await self._steps.publish()
        await self._lookout.look_at_peers()  # whom to wait for, as of now
        if self._machine.on_own_clock and self._settings.shares:
            await self._lookout.take_in_what_is_there(tasks)
        self._tell(m.Published(key, self._clock.monotonic()))

    async def _save(self, rounds_done: int) -> None:
        """Snapshot in the executor, quickly; write beside it, slowly. One that fails on the way costs no round.

        None may say more than the rows that are on disk, and on a slow disk no snapshots pile up in memory: one that
        is due too early is left out, and due again after the next round.
        """
        if self._is_last(rounds_done):
            await self._writes.flush(PATIENCE_AT_STOP)
        elif why := self._why_not_now():
            if not self._said_behind:
                logger.warning("checkpoint.skipped", rounds_done=rounds_done, why=why, next="after the next round")
            self._said_behind = True
            self._tell(m.SaveFailed(rounds_done))
            return
        async with self._saving:
            try:
                folder = await self._write_checkpoint(rounds_done)
            except CheckpointError as error:
                logger.error("checkpoint.failed", rounds_done=rounds_done, error=str(error))
                if self._is_last(rounds_done):
                    await self._wait_to_save_again(error)
                self._tell(m.SaveFailed(rounds_done))
            else:
                self._said_behind = False
                logger.info("checkpoint.saved", rounds_done=rounds_done, folder=str(folder))
                self._tell(m.Saved(rounds_done))

    async def _write_checkpoint(self, rounds_done: int) -> Path:
        state = NodeState(
            node_id=self._node_id,
            rounds_done=rounds_done,
            rounds_trained=self._steps.rounds_trained,
            seed=self._settings.seed,
            cumulative_reward=self._steps.cumulative_reward,
            model=self._policy.name,
        )
        snapshot = await self._executor.run(self._policy.snapshot)  # now: the next update must not be in it
        keep = self._settings.checkpoint_keep
        return await to_thread.run_sync(partial(save_checkpoint, self._layout, state, snapshot, keep=keep))

    def _is_last(self, rounds_done: int) -> bool:
        return self._machine.phase is m.Phase.SAVING and rounds_done == self._machine.rounds_done

    def _why_not_now(self) -> str:
        if self._writes.keeps_back:
            return "rows wait to be written"
        return "the one before is still being written" if self._saving.borrowed_tokens else ""

    async def _wait_to_save_again(self, error: CheckpointError) -> None:
        """The last one is tried for a while: without it what was learned would be lost, and that is no success."""
        now = self._clock.monotonic()
        if self._last_save_failing is None:
            self._last_save_failing = now
        if is_blocked(error) or now - self._last_save_failing > PATIENCE_AT_STOP:
            raise error
        await anyio.sleep(SAVE_PAUSE)
