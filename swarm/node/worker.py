"""The worker daemon: carries out what WorkerMachine decides.

                 ┌────────────── one event loop ───────────────┐        ┌─ compute executor, one thread ─┐
    folder ──▶ wake-ups ─▶ look: state, listings ─▶ Intake      │        │                                │
                 │             │ Clock                │ PeerArrived      │                                │
    peers/ ──▶ heartbeats ─────┴──▶ mailbox ◀─────────┘         │        │                                │
                 │                    │                         │        │                                │
                 │              WorkerMachine ─▶ Generate ──────┼───────▶│ policy.generate                │
                 │                    │          Score  ─▶ scoring children                              │
                 │                    │          Publish ─▶ thread, fsync                                 │
                 │                    │          Train  ────────┼───────▶│ policy.train, policy.snapshot  │
                 │                    │          Submit, Save ─▶ thread, fsync                            │
                 └─────────────────────────────────────────────┘        └────────────────────────────────┘

Each instruction runs as a task of its own and ends by putting an event into the mailbox, so the loop is free for
peers' files while the executor computes. The metrics row is the commit point of a round: a node that finds its row
has done that round, whatever else a crash took.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from swarm.config import Settings
from swarm.errors import CheckpointError, FolderError, ProtocolError
from swarm.folder.fetch import read_bounded
from swarm.folder.jsonl import read_rows
from swarm.folder.publish import publish
from swarm.folder.watch import wake_ups
from swarm.logs import append_json_line, get_logger
from swarm.node import worker_machine as m
from swarm.node.checkpoints import NodeState, clear_temporary, newest_checkpoint, save_checkpoint
from swarm.node.clock import Clock
from swarm.node.executor import ComputeExecutor
from swarm.node.experiment import differences, read_experiment
from swarm.node.intake import Intake, TaskSource
from swarm.node.lag import LoopLag
from swarm.node.liveness import ACTIVE, Liveness
from swarm.node.presence import Presence, read_peers
from swarm.node.round_work import RoundWork, mean_rewards, metrics_row, to_train
from swarm.node.state import read_state
from swarm.node.stopping import on_signals
from swarm.node.timeline import overlap, total
from swarm.protocol.codec import decode, encode, to_groups, to_rollout_file
from swarm.protocol.layout import Layout
from swarm.protocol.messages import MetricsRow, PolicyInfo, RewardFile, RolloutFile, StateFile, WinnersFile
from swarm.sapo.sampling import Sampler, choose_tasks, sample_external, uniform, winners
from swarm.sapo.seeds import derive_random, derive_seed
from swarm.tasks.scoring_messages import QuestionRequest
from swarm.types import Policy, Question, RolloutGroup, RoundKey, ScoredGroup, TrainReport

logger = get_logger("swarm.node.worker")


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
        clock: Clock | None = None,
        sampler: Sampler = uniform,
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._tasks = tasks
        self._load_policy = load_policy
        self._task_source = task_source
        self._clock = clock or Clock()
        self._sampler = sampler
        self._policy: Policy
        self._work: RoundWork
        self._machine = m.WorkerMachine(
            external_groups=settings.external_groups,
            round_interval=settings.round_interval,
            checkpoint_interval=settings.checkpoint_interval,
        )
        self._events, self._mailbox = anyio.create_memory_object_stream[m.Event](math.inf)
        self._liveness = Liveness(settings.liveness_timeout)
        self._presence = Presence(
            layout, node_id, "worker", settings.heartbeat_interval, self._clock, model=settings.model[0]
        )
        self._intake = Intake(
            layout=layout,
            node_id=node_id,
            task_source=task_source,
            max_file_bytes=settings.max_file_bytes,
            clock=self._clock,
            on_arrival=self._on_arrival,
        )
        self._lag = LoopLag(self._clock.monotonic)
        self._cumulative = 0.0
        self._rounds_trained = 0
        self._round_ended = self._clock.monotonic()
        self._seen_clock: RoundKey | None = None
        self._complained: set[str] = set()
        self._stop_code: int | None = None
        self._saving = anyio.CapacityLimiter(1)
        self._executor: ComputeExecutor
        self._daemon: TaskGroup

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def run(self) -> int:
        """Run until the experiment is finished or somebody stops the node.

        Returns:
            The exit code: 0 finished, 130 or 143 stopped by a signal.

        Raises:
            SwarmError: what ends this node; the folder keeps all that was acknowledged.
        """
        await self._presence.register()
        try:
            await to_thread.run_sync(clear_temporary, self._layout, self._node_id)
            with ComputeExecutor(self._clock.monotonic) as self._executor:
                await self._live()
        finally:
            await self._presence.leave()
        return self._stop_code or 0

    async def _live(self) -> None:
        async with anyio.create_task_group() as daemon, anyio.create_task_group() as steps:
            self._daemon = daemon
            daemon.start_soon(on_signals, self.stop)
            daemon.start_soon(self._presence.keep_beating)
            daemon.start_soon(self._lag.measure)
            daemon.start_soon(self._watch_folder)
            daemon.start_soon(self._watch_peers)
            steps.start_soon(self._load)
            await self._decide(steps)
            async with self._saving:  # a checkpoint that is being written gets finished
                steps.cancel_scope.cancel()
                daemon.cancel_scope.cancel()

    def stop(self, exit_code: int) -> None:
        """Finish the step, save, end with this exit code."""
        self._stop_code = exit_code
        self._tell(m.Stop(self._clock.monotonic()))

    def _tell(self, event: m.Event) -> None:
        self._events.send_nowait(event)

    async def _decide(self, steps: TaskGroup) -> None:
        while self._machine.phase is not m.Phase.DONE:
            event: m.Event = m.Tick(self._clock.monotonic())
            wake_at = self._machine.wake_at
            with anyio.move_on_after(None if wake_at is None else max(0.0, wake_at - self._clock.monotonic())):
                event = await self._mailbox.receive()
            if isinstance(event, m.Tick):
                event = m.Tick(self._clock.monotonic())
            for instruction in self._machine.handle(event):
                self._carry_out(instruction, steps)
            self._presence.phase = self._machine.phase

    def _carry_out(self, instruction: m.Instruction, steps: TaskGroup) -> None:
        match instruction:
            case m.Generate():
                steps.start_soon(self._generate, instruction)
            case m.Score(key):
                steps.start_soon(self._score, key)
            case m.Publish(key):
                steps.start_soon(self._publish, key)
            case m.Train():
                steps.start_soon(self._train, instruction)
            case m.Submit(key):
                steps.start_soon(self._submit, key)
            case m.Save(rounds_done):
                steps.start_soon(self._save, rounds_done, self._cumulative)
            case m.Finish(reason):
                logger.info(
                    "node.finished",
                    reason=reason,
                    rounds_done=self._machine.rounds_done,
                    cumulative_reward=self._cumulative,
                )

    async def _load(self) -> None:
        self._warn_of_other_settings()
        rows, _ = await to_thread.run_sync(read_rows, self._layout.metrics_file(self._node_id), MetricsRow)
        done = {row.round: row for row in rows}
        self._cumulative = math.fsum(row.my_reward for row in done.values())
        checkpoint = await to_thread.run_sync(newest_checkpoint, self._layout, self._node_id)
        self._policy = await self._executor.run(self._load_policy)
        self._presence.model = self._policy.name
        rounds_saved = 0
        if checkpoint:
            state, folder = checkpoint
            await self._executor.run(self._policy.restore, str(folder))
            rounds_saved = self._rounds_trained = state.rounds_done
        next_round = max(rounds_saved, max(done, default=-1) + 1)
        if done:
            await self._submit_row(done[max(done)])
        self._presence.status = ACTIVE
        await self._presence.beat()
        logger.info(
            "node.ready",
            model=self._policy.name,
            next_round=next_round,
            checkpoint_round=rounds_saved,
            rounds_lost=next_round - rounds_saved,
            cumulative_reward=self._cumulative,
        )
        self._round_ended = self._clock.monotonic()
        self._tell(m.Ready(next_round))

    def _warn_of_other_settings(self) -> None:
        experiment = read_experiment(self._layout)
        if experiment and (changed := differences(self._settings, experiment)):
            logger.warning("experiment.other_settings", differences=changed)

    # ── what the folder says ────────────────────────────────────────────────────────────────────────────────────────
    async def _watch_folder(self) -> None:
        folders = [self._layout.state_file.parent, self._layout.rollouts]
        events = self._settings.watch == "auto"
        async with wake_ups(folders, self._settings.reconcile_interval, events=events) as wakes:
            async for _ in wakes:
                await self._look()

    async def _look(self) -> None:
        state = await self._read_clock()
        if state:
            key = RoundKey(state.round, state.stage)
            self._seen_clock = key
            self._tell(m.Clock(key, state.finished, self._clock.monotonic()))
        if self._settings.external_groups:
            keys = {key for key in (self._seen_clock, self._machine.key) if key}
            await self._intake.look(keys, self._daemon)

    async def _read_clock(self) -> StateFile | None:
        try:
            state = await to_thread.run_sync(read_state, self._layout)
        except ProtocolError as error:
            self._complain("state.unreadable", error)
            return None
        if state is None:
            self._complain("state.missing", "no coordinator has opened this experiment yet; waiting for one", info=True)
        return state

    def _complain(self, event: str, reason: object, *, info: bool = False) -> None:
        """Once per kind: the folder is looked at every other second."""
        if event not in self._complained:
            self._complained.add(event)
            (logger.info if info else logger.warning)(event, reason=str(reason), experiment=self._layout.experiment)

    async def _watch_peers(self) -> None:
        while True:
            await self._look_at_peers()
            await anyio.sleep(self._settings.heartbeat_interval)

    async def _look_at_peers(self) -> None:
        try:
            peers = await to_thread.run_sync(read_peers, self._layout)
        except FolderError as error:
            self._complain("peers.unlistable", error)
            return
        for peer in peers:
            self._liveness.observe(peer, self._clock.monotonic(), self._clock.wall())
        self._tell(m.PeersLive(self._live_peers(), self._clock.monotonic()))

    def _live_peers(self) -> frozenset[str]:
        return self._liveness.live(self._clock.monotonic(), role="worker") - {self._node_id}

    async def _on_arrival(self, key: RoundKey, peer: str) -> None:
        self._tell(m.PeerArrived(key, peer, self._clock.monotonic()))

    # ── the steps of a round ────────────────────────────────────────────────────────────────────────────────────────
    @asynccontextmanager
    async def _timed(self, step: str) -> AsyncIterator[None]:
        begun = self._clock.monotonic()
        yield
        self._work.seconds[step] += self._clock.monotonic() - begun

    async def _generate(self, instruction: m.Generate) -> None:
        key, now = instruction.key, self._clock.monotonic()
        self._presence.round, self._presence.stage = key
        if instruction.skipped:
            logger.info("rounds.skipped", count=instruction.skipped, now_at=key.round)
        self._work = RoundWork(key, started=now, waited=now - self._round_ended)
        self._intake.forget_before(key)
        self._intake.activity.forget_before(now)
        self._executor.busy.forget_before(now)
        async with self._timed("generate"):
            if groups := await to_thread.run_sync(self._published_before, key):
                self._work.groups, self._work.adopted = groups, True
                logger.info("rollouts.adopted", round=key.round, groups=len(groups))
            else:
                self._work.questions = await self._ask(key)
                self._work.groups = await self._answer(key, self._work.questions)
        self._tell(m.Generated(key))

    def _published_before(self, key: RoundKey) -> list[RolloutGroup]:
        """What this node published for this round before it died: published once, it stays as it is."""
        path = self._layout.rollout_file(key, self._node_id)
        try:
            data = read_bounded(path, self._settings.max_file_bytes)
        except FileNotFoundError:
            return []
        return to_groups(decode(data, RolloutFile, str(path)), self._node_id, key)

    async def _ask(self, key: RoundKey) -> list[Question]:
        seed, node, profile = self._settings.seed, self._node_id, self._settings.profile
        rng = derive_random(seed, "tasks", node, *key)
        tasks = choose_tasks(self._tasks, self._settings.local_groups, rng)
        return await self._task_source.make(
            [
                QuestionRequest(task, profile, derive_seed(seed, "question", node, *key, slot), 0)
                for slot, task in enumerate(tasks)
            ]
        )

    async def _answer(self, key: RoundKey, questions: list[Question]) -> list[RolloutGroup]:
        answers = await self._executor.run(
            self._policy.generate,
            [question.prompt for question in questions],
            group_size=self._settings.generations,
            seed=derive_seed(self._settings.seed, "generation", self._node_id, *key),
        )
        return [
            RolloutGroup(
                peer_id=self._node_id,
                round=key.round,
                stage=key.stage,
                slot=slot,
                question=question,
                completions=completions,
                model=self._policy.name,
            )
            for slot, (question, completions) in enumerate(zip(questions, answers, strict=True))
        ]

    async def _score(self, key: RoundKey) -> None:
        async with self._timed("score"):
            for group in self._work.groups:
                result = await self._task_source.score(
                    group.question.origin, group.question.prompt, [c.text for c in group.completions]
                )
                asked = msgspec.structs.replace(group, question=result.question)
                self._work.own.append(ScoredGroup(asked, result.rewards, result.answered))
                self._work.killed += result.killed
                self._work.errors += result.errors
        self._tell(m.Scored(key))

    async def _publish(self, key: RoundKey) -> None:
        async with self._timed("publish"):
            if not self._work.adopted:
                await self._publish_rollouts(key)
        await self._look_at_peers()
        self._work.gather_from = self._clock.monotonic()
        self._tell(m.Published(key, self._work.gather_from))

    async def _publish_rollouts(self, key: RoundKey) -> None:
        policy = PolicyInfo(model=self._policy.name, rounds_trained=self._rounds_trained)
        file = to_rollout_file(self._work.own, self._node_id, key, self._clock.wall(), policy)
        data = encode(file)
        self._work.bytes_published = len(data)
        await self._write(self._layout.rollout_file(key, self._node_id), data)

    async def _train(self, instruction: m.Train) -> None:
        work, key = self._work, instruction.key
        work.seconds["gather"] = self._clock.monotonic() - work.gather_from
        work.heard, work.awaited = instruction.heard, instruction.awaited
        work.timed_out, work.late = instruction.timed_out, instruction.late
        work.pool = self._intake.groups(key, instruction.heard)
        rng = derive_random(self._settings.seed, "external", self._node_id, *key)
        work.external = sample_external(work.pool, self._settings.external_groups, rng, self._sampler)
        if len(work.external) < self._settings.external_groups:
            logger.debug(
                "external.fewer",
                round=key.round,
                wanted=self._settings.external_groups,
                got=len(work.external),
                pool=len(work.pool),
            )
        async with self._timed("train"):
            work.report = await self._update(key)
        self._rounds_trained += work.report.updated
        self._tell(m.Trained(key))

    async def _update(self, key: RoundKey) -> TrainReport:
        work = self._work
        groups = [to_train(s, external=False) for s in work.own] + [to_train(s, external=True) for s in work.external]
        seed = derive_seed(self._settings.seed, "training", self._node_id, *key)
        return await self._executor.run(self._policy.train, groups, seed=seed)

    async def _submit(self, key: RoundKey) -> None:
        self._cumulative += self._work.my_reward
        row = self._row()
        await to_thread.run_sync(self._append_row, row)
        await self._submit_row(row)
        await self._vote(key)
        self._log_round(row)
        self._round_ended = self._clock.monotonic()
        self._tell(m.Submitted(key))

    def _append_row(self, row: MetricsRow) -> None:
        append_json_line(self._layout.metrics_file(self._node_id), msgspec.json.encode(row), fsync=True)

    def _row(self) -> MetricsRow:
        work, now = self._work, self._clock.monotonic()
        busy, sharing = self._executor.busy.since(work.started), self._intake.activity.since(work.started)
        row = metrics_row(
            work,
            timestamp=self._clock.wall(),
            node_id=self._node_id,
            experiment=self._layout.experiment,
            total_agents=len(self._live_peers()) + 1,
            model=self._policy.name,
            cumulative_reward=self._cumulative,
            external_wanted=self._settings.external_groups,
            refused_files=dict(self._intake.refused),
            score_killed=work.killed + self._intake.killed,
            score_errors=work.errors + self._intake.errors,
            bytes_fetched=self._intake.bytes_fetched,
            publish_to_pool=self._intake.latencies,
            seconds_round=now - work.started,
            seconds_sharing=total(sharing),
            seconds_sharing_hidden=overlap(sharing, busy),
            loop_lag_max=self._lag.take(),
        )
        self._intake.take_counts()
        return row

    async def _submit_row(self, row: MetricsRow) -> None:
        """Tell the coordinator; after a crash between the row and this, the next start tells it."""
        key = RoundKey(row.round, row.stage)
        file = self._layout.reward_file(key, self._node_id)
        if await to_thread.run_sync(file.exists):
            return
        reward = RewardFile(
            round=key.round,
            stage=key.stage,
            reward=row.my_reward,
            peer_id=self._node_id,
            submitted_at=self._clock.wall(),
        )
        await self._write(file, encode(reward))

    async def _vote(self, key: RoundKey) -> None:
        best = winners(mean_rewards([*self._work.own, *self._work.pool]))
        vote = WinnersFile(round=key.round, winners=best, peer_id=self._node_id, submitted_at=self._clock.wall())
        await self._write(self._layout.winners_file(key.round, self._node_id), encode(vote), durable=False)

    def _log_round(self, row: MetricsRow) -> None:
        """The canonical line of the round."""
        logger.info(
            "round.completed",
            round=row.round,
            my_reward=round(row.my_reward, 4),
            cumulative_reward=round(row.cumulative_reward, 4),
            tagged=round(row.answer_tag_rate, 3),
            local=row.local_groups,
            external=f"{row.external_groups}/{row.external_wanted}",
            pool=f"{row.pool_informative}/{row.pool_groups}",
            loss=round(row.loss, 5),
            grad_norm=round(row.grad_norm, 4),
            seconds=round(row.seconds_round, 2),
            updated=row.updated,
            late=row.late,
        )

    async def _write(self, target: Path, data: bytes, *, durable: bool = True) -> None:
        await to_thread.run_sync(partial(publish, target, data, self._layout.temporary(self._node_id), durable=durable))

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def _save(self, rounds_done: int, cumulative: float) -> None:
        """Snapshot in the executor, quickly; write beside it, slowly. One that fails costs no round."""
        async with self._saving:
            snapshot = await self._executor.run(self._policy.snapshot)
            state = NodeState(
                node_id=self._node_id,
                rounds_done=rounds_done,
                seed=self._settings.seed,
                cumulative_reward=cumulative,
                model=self._policy.name,
            )
            save = partial(save_checkpoint, self._layout, state, snapshot, keep=self._settings.checkpoint_keep)
            try:
                folder = await to_thread.run_sync(save)
            except CheckpointError as error:
                logger.error("checkpoint.failed", rounds_done=rounds_done, error=str(error))
            else:
                logger.info("checkpoint.saved", rounds_done=rounds_done, folder=str(folder))
        self._tell(m.Saved(rounds_done))
