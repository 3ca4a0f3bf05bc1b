"""The steps of one round of a worker, in their order; WorkerMachine says when each is due.

    generate ─▶ score ─▶ publish ─▶ (gather: the machine waits, Intake works) ─▶ train ─▶ submit
    (or generate_ahead)  └▶ begin_update, in the executor ──────────────────────▶ │

The metrics row is the commit point of a round: a node that finds its row has done that round, whatever else a crash
took. Rollouts that were published stay as they are: a node that died after it takes them up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import msgspec
from anyio import to_thread

from swarm.algo.registry import advantage_scaling
from swarm.algo.samplers import Sampler
from swarm.algo.sampling import sample_external, winners
from swarm.algo.seeds import derive_random
from swarm.config import Settings
from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.clock import Clock
from swarm.node.base.context import Compute
from swarm.node.base.submissions import has_submitted
from swarm.node.base.timeline import overlap, total
from swarm.node.base.write_queue import Write, WriteQueue
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.intake import Intake
from swarm.node.sharing.trained_groups import TrainedGroups
from swarm.node.sharing.verification import TaskSource, score_groups
from swarm.node.worker.events import Generate, Train
from swarm.node.worker.held_out import HeldOutAnswers
from swarm.node.worker.ij_schedule import IJSchedule
from swarm.node.worker.metrics_row import metrics_row
from swarm.node.worker.own_groups import OwnGroups, Published, same_texts
from swarm.node.worker.round_work import RoundWork, mean_rewards, to_train
from swarm.store.run import Run
from swarm.types import Policy, Question, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.layout import Layout
from swarm.wire.messages import MetricsRow, PolicyInfo, RewardFile, WinnersFile

Result = TypeVar("Result")
logger = get_logger(__name__)


class RoundSteps:
    """Carries out one step at a time; the round in hand is `work`."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        node_id: str,
        *,
        run: Run,
        policy: Policy,
        rounds_trained: int,
        assigned: AssignedQuestions,
        task_source: TaskSource,
        executor: Compute,
        intake: Intake,
        writes: WriteQueue,
        sampler: Sampler,
        schedule: IJSchedule,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._run = run
        self._policy = policy
        self.rounds_trained = rounds_trained
        """Rounds that changed the weights."""
        self._assigned = assigned
        self._task_source = task_source
        self._executor = executor
        self._intake = intake
        self._writes = writes
        self._sampler = sampler
        self._scaling = advantage_scaling(settings.advantage_scaling)
        self._schedule = schedule
        self._clock = clock
        self._held_out = HeldOutAnswers(
            layout, node_id, seed=settings.seed, policy=policy, executor=executor, clock=clock
        )
        self.own_groups = OwnGroups(settings, layout, node_id, policy)
        self.cumulative_reward = 0.0
        """Sum of my_reward over all rounds of this node, those before a restart included."""
        self._round_ended = clock.monotonic()
        self._ahead: dict[RoundKey, RoundWork] = {}
        self._asked: dict[RoundKey, list[Question]] = {}
        self._trained = TrainedGroups()
        self.work: RoundWork

    async def continue_from(self, rows: Sequence[MetricsRow]) -> int:
        """Take up the history of this node.

        Returns:
            The first round that it has not done.
        """
        by_round = {row.round: row for row in rows}
        lived = [by_round[number] for number in sorted(by_round)]
        self.cumulative_reward = sum(row.my_reward for row in lived)
        if not lived:
            return 0
        for row in lived:
            self._schedule.observe(row)
            self._intake.remember(row)
        last = lived[-1]
        self._trained.recall(rows)
        self._trained.forget_before(last.round - self._settings.staleness_window)
        await self._submit_reward(last)
        return last.round + 1

    # ── generate ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def generate(self, instruction: Generate, *, on_own_clock: bool = False) -> None:
        """Ask I fresh questions and sample G completions to each, or take up what was made or published before."""
        key, now = instruction.key, self._clock.monotonic()
        if instruction.skipped:
            logger.info("rounds.skipped", count=instruction.skipped, now_at=key.round)
        oldest = max(0, key.round - self._settings.staleness_window)
        self._intake.forget_before(RoundKey(oldest))
        self._trained.forget_before(oldest)
        self._executor.busy.forget_before(self._round_ended)
        ahead, self._ahead = self._ahead.get(key), {k: work for k, work in self._ahead.items() if k > key}
        self.work = ahead or RoundWork(key, self._schedule.of(key))
        self.work.started, self.work.waited = now, now - self._round_ended
        self.work.clock = "own" if on_own_clock else "coordinator"
        if ahead:
            await ahead.scored.wait()
        else:
            await self._generate(self.work)

    async def generate_ahead(self, key: RoundKey) -> None:
        """Generate and score a round's groups before it is open."""
        work = self._ahead[key] = RoundWork(key, self._schedule.of(key), ahead=True)
        await self._generate(work)
        if self._wanted(work):
            await self._score(work)

    def _wanted(self, work: RoundWork) -> bool:
        """False of a round that was prepared ahead and then skipped."""
        return self._ahead.get(work.key) is work or work is self.work

    async def _generate(self, work: RoundWork) -> None:
        work.rounds_trained = self.rounds_trained
        with self._timed("generate", work):
            published = await to_thread.run_sync(self.own_groups.published, work.key)
            questions = self._asked.pop(work.key, []) or await self.ask(work.key)
        work.queued.set()  # nothing waits between here and the executor's queue
        if not self._wanted(work):
            return
        write = partial(self.own_groups.write, work.key, questions[: work.split.local])
        work.groups = await self._compute("generate", work, write)
        if published:
            self._take_up(published, work)

    def _take_up(self, published: Published, work: RoundWork) -> None:
        """This node died in this round after it had published; what its peers may have read stays."""
        work.published, work.bytes_published = True, published.bytes
        work.adopted = not same_texts(work.groups, published.groups)
        if work.adopted:
            work.groups = published.groups
        logger.info("rollouts.taken_up", round=work.key.round, groups=len(work.groups), rewritten=not work.adopted)

    async def ask(self, key: RoundKey) -> list[Question]:
        """As many questions as the round may need: its split may not be known yet, and takes the first I of them."""
        questions = self._assigned.questions(self._node_id, key, self._settings.most_local_groups)
        return await self._task_source.make(questions)

    # ── score, publish ──────────────────────────────────────────────────────────────────────────────────────────────
    async def score(self) -> None:
        """Score the own completions, as boundedly as anybody's."""
        if not self.work.ahead:
            await self._score(self.work)

    async def _score(self, work: RoundWork) -> None:
        with self._timed("score", work):
            scores = await score_groups(self._task_source, work.groups)
        for group, score in zip(work.groups, scores, strict=True):
            if isinstance(score, ProtocolError):
                if not work.adopted:
                    raise score  # an own question cannot be regenerated: nothing that follows would be true
                logger.warning("rollouts.unscorable", round=work.key.round, slot=group.slot, error=str(score))
                continue  # published before a crash, with another version of its family
            asked = msgspec.structs.replace(group, question=score.question)
            work.own.append(ScoredGroup(asked, score.rewards, score.answered))
            work.killed += score.killed
            work.errors += score.errors
        work.scored.set()

    async def publish(self) -> None:
        """Give the groups to the peers; once they are on disk they count as acknowledged."""
        with self._timed("publish", self.work), self._intake.activity.running():
            if not self.work.published:
                await self._publish_rollouts()
        self.work.gather_from = self._clock.monotonic()

    async def _publish_rollouts(self) -> None:
        key = self.work.key
        file = to_rollout_file(
            self.work.own,
            self._node_id,
            key,
            self._clock.wall(),
            self._policy_info(),
            with_logprobs=self._settings.publish_logprobs,
        )
        data = encode(file)
        self.work.bytes_published = len(data)
        await self._put("rollouts", key, keys.rollout(key, self._node_id), data, droppable=True)

    def _policy_info(self) -> PolicyInfo:
        return PolicyInfo(
            model=self._policy.name,
            rounds_trained=self.work.rounds_trained,
            tokenizer=self._policy.tokenizer if self._settings.publish_logprobs else "",
            temperature=self._settings.temperature,
        )

    # ── train ───────────────────────────────────────────────────────────────────────────────────────────────────────
    async def begin_update(self, key: RoundKey) -> None:
        """Add up the gradients of the own groups, which need not wait for anybody else's."""
        work = self._ahead.get(key, self.work)
        await work.scored.wait()
        groups = [to_train(scored, external=False, scaling=self._scaling) for scored in work.own]
        await self._compute("train", work, partial(self._policy.begin_update, groups))
        work.begun.set()
        await self._ask_ahead(key)

    async def _ask_ahead(self, key: RoundKey) -> None:
        """Have the questions of the round to be generated next at hand: nothing about them depends on an update."""
        ahead = RoundKey(key.round + 1 + self._settings.staleness)
        if ahead.round < self._settings.max_rounds:
            self._asked = {ahead: await self.ask(ahead)}

    async def train(self, instruction: Train) -> None:
        """Sample J external groups from the pool, add their gradients, and make the update."""
        work, settings = self.work, self._settings
        work.seconds["gather"] = self._clock.monotonic() - work.gather_from
        work.heard, work.awaited = instruction.heard, instruction.awaited
        work.timed_out, work.late = instruction.timed_out, instruction.late
        work.pool = self._trained.left_of(self._intake.groups(instruction.sources))
        rng = derive_random(settings.seed, "external", self._node_id, *work.key)
        work.external = sample_external(work.pool, work.split.external, rng, self._sampler)
        self._trained.add(work.external)
        groups = [to_train(scored, external=True, scaling=self._scaling) for scored in work.external]
        await work.begun.wait()
        for ahead in list(self._ahead.values()):
            await ahead.queued.wait()  # its groups are to come from the policy before this update, whatever is slow
        work.report = await self._compute("train", work, partial(self._policy.finish_update, groups))
        work.seconds["train"] -= work.report.seconds_lease
        self.rounds_trained += work.report.updated

    # ── submit ──────────────────────────────────────────────────────────────────────────────────────────────────────
    async def submit(self, live_peers: int, loop_lag: float) -> None:
        """Row first, then the reward that the coordinator waits for, then the vote and the canonical log line.

        What a judge asks comes last, when nobody waits for this round any longer.
        """
        self.cumulative_reward += self.work.my_reward
        row = self._row(live_peers, loop_lag)
        self._schedule.observe(row)  # before anything is awaited: the next round may be generated meanwhile
        key = RoundKey(row.round, row.stage)
        size = len(msgspec.json.encode(row))
        await self._writes.put(Write("row", key, partial(self._append_row, row), size, needed=True))
        await self._submit_reward(row)
        await self._vote()
        _log_round(row)
        self._round_ended = self._clock.monotonic()
        await self._held_out.answer(row.round, self.rounds_trained)

    def _row(self, live_peers: int, loop_lag: float) -> MetricsRow:
        work, intake = self.work, self._intake
        busy, sharing = self._executor.busy.since(work.started), intake.activity.since(work.started)
        leased = work.report.seconds_lease if work.report else 0.0
        whole_round = self._clock.monotonic() - self._round_ended
        counts = intake.close_round(work.key.round)
        row = metrics_row(
            work,
            timestamp=self._clock.wall(),
            node_id=self._node_id,
            experiment=self._run.experiment,
            total_agents=live_peers + 1,
            model=self._policy.name,
        )
        counts.fill(row)
        self._schedule.fill(row, work.split)
        row.cumulative_reward = self.cumulative_reward
        row.refused_files = dict(counts.refused + self._held_out.take_refused())
        row.seconds_round = self._clock.monotonic() - work.started
        row.executor_busy = (total(self._executor.busy.since(self._round_ended)) - leased) / whole_round
        row.seconds_sharing = total(sharing)
        row.seconds_sharing_hidden = overlap(sharing, busy)
        row.loop_lag_max = loop_lag
        return row

    def _append_row(self, row: MetricsRow) -> None:
        """The commit point; of a round whose rollouts no peer will ever see, the row says so."""
        if self._writes.gave_up_rollouts(RoundKey(row.round, row.stage)):
            row = msgspec.structs.replace(row, bytes_published=0)
        self._run.store.append_records(keys.metrics(self._node_id), [msgspec.json.encode(row)], durable=True)

    async def _submit_reward(self, row: MetricsRow) -> None:
        """Once per round: after a crash between the row and this, the next start makes up for it."""
        key = RoundKey(row.round, row.stage)
        if await to_thread.run_sync(self._has_submitted, key):
            return
        reward = RewardFile(
            round=row.round,
            stage=row.stage,
            reward=row.my_reward,
            peer_id=self._node_id,
            submitted_at=self._clock.wall(),
        )
        await self._put("reward", key, keys.reward(key, self._node_id), encode(reward))

    def _has_submitted(self, key: RoundKey) -> bool:
        there = has_submitted(self._run, key, self._node_id)
        if there:
            with suppress(StoreError):
                self._run.store.sync(keys.reward(key, self._node_id))
        return there

    async def _vote(self) -> None:
        best = winners(mean_rewards([*self.work.own, *self.work.pool]))
        round_ = self.work.key.round
        vote = WinnersFile(round=round_, winners=best, peer_id=self._node_id, submitted_at=self._clock.wall())
        place = keys.winners(round_, self._node_id)
        await self._put("vote", self.work.key, place, encode(vote), droppable=True, durable=False)

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────
    @contextmanager
    def _timed(self, step: str, work: RoundWork) -> Iterator[None]:
        begun = self._clock.monotonic()
        yield
        work.seconds[step] += self._clock.monotonic() - begun

    async def _compute(self, step: str, work: RoundWork, compute: Callable[[], Result]) -> Result:
        """Run in the executor; the seconds are those of computing, without the wait for its turn."""

        def timed() -> Result:
            with self._timed(step, work):
                return compute()

        return await self._executor.run(timed)

    async def _put(
        self,
        what: str,
        key: RoundKey,
        place: str,
        data: bytes,
        *,
        droppable: bool = False,
        durable: bool = True,
    ) -> None:
        """Have a file published by the writes."""
        write = partial(self._run.put_sealed, place, data, durable=durable)
        await self._writes.put(Write(what, key, write, len(data), droppable=droppable))


def _log_round(row: MetricsRow) -> None:
    """The canonical line: one per node and round."""
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
