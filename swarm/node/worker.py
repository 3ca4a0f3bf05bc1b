"""The worker daemon: carries out what WorkerMachine decides.

                 ┌────────────── one event loop ───────────────┐        ┌─ compute executor, one thread ─┐
    folder ──▶ wake-ups ─▶ look: state, listings ─▶ Intake      │        │                                │
                 │             │ Clock                │ PeerArrived      │                                │
    peers/ ──▶ heartbeats ─────┴──▶ mailbox ◀─────────┘         │        │                                │
                 │                    │                         │        │                                │
                 │              WorkerMachine ─▶ Generate, GenerateAhead┼▶│ policy.generate                │
                 │                    │          Score  ─▶ scoring children                              │
                 │                    │          Publish ─▶ thread, fsync                                 │
                 │                    │          BeginUpdate ───┼───────▶│ policy.begin_update            │
                 │                    │          Train  ────────┼───────▶│ policy.finish_update           │
                 │                    │          Submit, Save ──┼───────▶│ policy.snapshot                │
                 │                    │                 └─▶ thread, fsync                                 │
                 └─────────────────────────────────────────────┘        └────────────────────────────────┘

Each instruction runs as a task of its own and ends by putting an event into the mailbox, so the loop is free for
peers' files while the executor computes. What is seen: lookout.py; what a round does: round_steps.py.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from swarm.config import Settings, command_line, variable
from swarm.errors import CheckpointError, FolderError
from swarm.folder.liveness import ACTIVE
from swarm.folder.records import read_rows
from swarm.logs import get_logger
from swarm.node import worker_machine as m
from swarm.node.checkpoints import clear_temporary, newest_checkpoint, save_checkpoint
from swarm.node.clock import Clock
from swarm.node.executor import ComputeExecutor
from swarm.node.experiment import differences, read_experiment
from swarm.node.intake import Intake, TaskSource
from swarm.node.lag import LoopLag
from swarm.node.lookout import Lookout
from swarm.node.presence import Presence
from swarm.node.round_steps import RoundSteps
from swarm.node.splits import Splits
from swarm.node.stopping import on_signals
from swarm.protocol.layout import Layout
from swarm.protocol.messages import NodeState
from swarm.sapo.named import sampler
from swarm.types import Policy, RoundKey

logger = get_logger(__name__)


class Worker:
    """One training node, from registration to its last checkpoint."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        node_id: str,
        *,
        tasks: Sequence[str],
        load_policy: Callable[[], Policy],
        task_source: TaskSource,
        executor: ComputeExecutor,
        clock: Clock | None = None,
        obeys_signals: bool = True,
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._tasks = tasks
        self._load_policy = load_policy
        self._task_source = task_source
        self._executor = executor
        self._obeys_signals = obeys_signals
        self._sampler = sampler(settings.sampler)
        self._splits = Splits(settings, node_id)
        self._clock = clock = clock or Clock()
        self._machine = m.WorkerMachine(
            external_groups=settings.most_external_groups,
            round_interval=settings.round_interval,
            checkpoint_interval=settings.checkpoint_interval,
            staleness=settings.staleness,
        )
        self._events, self._mailbox = anyio.create_memory_object_stream[m.Event](math.inf)
        self._presence = Presence(
            layout, node_id, "worker", settings.heartbeat_interval, clock, model=settings.model[0]
        )
        self._intake = Intake(
            layout=layout,
            node_id=node_id,
            task_source=task_source,
            max_file_bytes=settings.max_file_bytes,
            clock=clock,
            on_arrival=self._on_arrival,
        )
        self._lookout = Lookout(
            settings,
            layout,
            node_id,
            clock=clock,
            intake=self._intake,
            tell=self._tell,
            working_on=lambda: self._machine.key,
        )
        self._lag = LoopLag(clock.monotonic)
        self._saving = anyio.CapacityLimiter(1)
        self._stop_code: int | None = None
        self._policy: Policy
        self._steps: RoundSteps

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def run(self) -> int:
        """Run until the experiment is finished or somebody stops the node.

        Returns:
            The exit code: 0 finished, 130 or 143 stopped by a signal.

        Raises:
            SwarmError: what ends this node; the folder keeps all that was acknowledged.
        """
        with self._events, self._mailbox:
            await self._presence.register()
            try:
                await to_thread.run_sync(clear_temporary, self._layout, self._node_id)
                await self._live()
            finally:
                await self._presence.leave()
        return self._stop_code or 0

    async def _live(self) -> None:
        async with anyio.create_task_group() as tasks:
            if self._obeys_signals:
                tasks.start_soon(on_signals, self.stop)
            tasks.start_soon(self._presence.keep_beating)
            tasks.start_soon(self._lag.measure)
            tasks.start_soon(self._lookout.watch_folder, tasks)
            tasks.start_soon(self._lookout.watch_peers)
            tasks.start_soon(self._load)
            await self._decide(tasks)
            tasks.cancel_scope.cancel()

    def stop(self, exit_code: int) -> None:
        """Finish the step, save, end with this exit code."""
        logger.info("node.stopping", exit_code=exit_code, again="ends at once")
        self._stop_code = exit_code
        self._tell(m.Stop(self._clock.monotonic()))

    def _tell(self, event: m.Event) -> None:
        self._events.send_nowait(event)

    async def _on_arrival(self, key: RoundKey, peer: str) -> None:
        self._tell(m.PeerArrived(key, peer, self._clock.monotonic()))

    async def _load(self) -> None:
        await self._warn_of_other_settings()
        history = await to_thread.run_sync(read_rows, self._layout.metrics_file(self._node_id))
        checkpoint = await to_thread.run_sync(newest_checkpoint, self._layout, self._node_id)
        self._policy = await self._executor.run(self._load_policy)
        rounds_saved = rounds_trained = 0
        if checkpoint:
            state, folder = checkpoint
            await self._executor.run(self._policy.restore, str(folder))
            rounds_saved, rounds_trained = state.rounds_done, state.rounds_trained
        self._steps = self._steps_after(rounds_trained)
        next_round = max(rounds_saved, await self._steps.continue_from(history.rows))
        self._presence.model, self._presence.status = self._policy.name, ACTIVE
        await self._presence.beat()
        logger.info(
            "node.ready",
            model=self._policy.name,
            next_round=next_round,
            checkpoint_round=rounds_saved,
            rounds_lost=next_round - rounds_saved,
            cumulative_reward=self._steps.cumulative_reward,
        )
        self._tell(m.Ready(next_round))

    def _steps_after(self, rounds_trained: int) -> RoundSteps:
        return RoundSteps(
            self._settings,
            self._layout,
            self._node_id,
            policy=self._policy,
            rounds_trained=rounds_trained,
            tasks=self._tasks,
            task_source=self._task_source,
            executor=self._executor,
            intake=self._intake,
            sampler=self._sampler,
            splits=self._splits,
            clock=self._clock,
        )

    async def _warn_of_other_settings(self) -> None:
        """Nodes may differ on purpose; but who differs by accident should hear of it."""
        try:
            experiment = await to_thread.run_sync(read_experiment, self._layout)
        except FolderError as error:
            logger.warning("experiment.unreadable", error=str(error))
            return
        if experiment and (changed := differences(self._settings, experiment)):
            logger.warning("experiment.other_settings", differences=changed)

    # ── decide, carry out ───────────────────────────────────────────────────────────────────────────────────────────
    async def _decide(self, tasks: TaskGroup) -> None:
        while self._machine.phase is not m.Phase.DONE:
            event: m.Event | None = None
            with anyio.move_on_after(self._until_wake()):
                event = await self._mailbox.receive()
            for instruction in self._machine.handle(event or m.Tick(self._clock.monotonic())):
                self._carry_out(instruction, tasks)
            self._presence.phase = self._machine.phase

    def _until_wake(self) -> float | None:
        at = self._machine.wake_at
        return None if at is None else max(0.0, at - self._clock.monotonic())

    def _carry_out(self, instruction: m.Instruction, tasks: TaskGroup) -> None:
        match instruction:
            case m.Generate(key):
                self._presence.round, self._presence.stage = key
                tasks.start_soon(self._then, partial(self._steps.generate, instruction), m.Generated(key))
            case m.GenerateAhead(key):
                tasks.start_soon(self._steps.generate_ahead, key)
            case m.Score(key):
                tasks.start_soon(self._then, self._steps.score, m.Scored(key))
            case m.Publish(key):
                tasks.start_soon(self._publish, key)
            case m.BeginUpdate(key):
                tasks.start_soon(self._steps.begin_update, key)
            case m.Train(key):
                tasks.start_soon(self._then, partial(self._steps.train, instruction), m.Trained(key))
            case m.Submit(key):
                submit = partial(self._steps.submit, len(self._lookout.live_peers()), self._lag.take())
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

    async def _publish(self, key: RoundKey) -> None:
        await self._steps.publish()
        await self._lookout.look_at_peers()  # whom to wait for, as of now
        self._tell(m.Published(key, self._clock.monotonic()))

    async def _save(self, rounds_done: int) -> None:
        """Snapshot in the executor, quickly; write beside it, slowly. One that fails on the way costs no round."""
        state = NodeState(
            node_id=self._node_id,
            rounds_done=rounds_done,
            rounds_trained=self._steps.rounds_trained,
            seed=self._settings.seed,
            cumulative_reward=self._steps.cumulative_reward,
            model=self._policy.name,
        )
        snapshot = await self._executor.run(self._policy.snapshot)  # now: the next update must not be in it
        async with self._saving:  # one after the other, so that a slow disk holds up no round
            save = partial(save_checkpoint, self._layout, state, snapshot, keep=self._settings.checkpoint_keep)
            try:
                folder = await to_thread.run_sync(save)
            except CheckpointError as error:
                logger.error("checkpoint.failed", rounds_done=rounds_done, error=str(error))
                if self._machine.phase is m.Phase.SAVING and rounds_done == self._machine.rounds_done:
                    raise  # the last one: what was learned would be lost, and that is no success
                self._tell(m.SaveFailed(rounds_done))
            else:
                logger.info("checkpoint.saved", rounds_done=rounds_done, folder=str(folder))
                self._tell(m.Saved(rounds_done))
