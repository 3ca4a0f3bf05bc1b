"""The steps of one round of a worker, in their order; WorkerMachine says when each is due.

    generate ─▶ score ─▶ publish ─▶ (gather: the machine waits, Intake works) ─▶ draw ─▶ train ─▶ (average) ─▶ submit
    (or generate_ahead)  └▶ begin_update, in the compute thread ───────────────────────▶ │

own_groups.py makes the own groups, round_files.py brings what a round leaves to the shared place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio.abc import TaskGroup
from msgspec import UNSET

from swarm.algo.registry import advantage_scaling, sampler
from swarm.algo.sampling import first_of_each_peer, most_of_peer, sample_external, winners
from swarm.algo.seeds import derive_random
from swarm.logs import get_logger
from swarm.node.base.timeline import Interval, coarse, merge, overlap, total
from swarm.node.sharing.intake import Intake, Wanted
from swarm.node.sharing.trained_groups import TrainedGroups
from swarm.node.worker.averaging import Around, Averaging
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.events import Draw, Generate, Train
from swarm.node.worker.foreseeing import Foreseeing
from swarm.node.worker.held_out import HeldOutAnswers
from swarm.node.worker.hint_log import HintLog
from swarm.node.worker.ij_schedule import IJSchedule
from swarm.node.worker.own_groups import OwnGroups
from swarm.node.worker.round_files import RoundFiles
from swarm.node.worker.round_work import RoundWork, bounded, fill_planted, mean_rewards, metrics_row, to_train
from swarm.records.liveness import EVALUATOR
from swarm.types import Bill, Generator, RemoteGenerator, RoundKey, Trainer, TrainGroup, TrainReport, stage_after
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)

MOST_SPANS = 8
"""Of one activity in a row: a round has some four."""


class RoundSteps:
    """Carries out one step at a time; the round in hand is `work`."""

    def __init__(
        self, ctx: WorkerContext, generator: Generator, trainer: Trainer, intake: Intake, rounds_trained: int
    ) -> None:
        self._ctx = ctx
        self._generator = generator
        self._trainer = trainer
        self._intake = intake
        self.rounds_trained = rounds_trained
        """Rounds that changed the weights."""
        self._sampler = sampler(ctx.settings.sampler)
        self._scaling = advantage_scaling(ctx.settings.advantage_scaling)
        self._schedule = IJSchedule(ctx.settings, ctx.node_id)
        self._files = RoundFiles(ctx)
        self._hints = HintLog(ctx)
        self._foreseeing = Foreseeing(ctx.settings)
        self.held_out = HeldOutAnswers(ctx, generator)
        self.own_groups = OwnGroups(ctx, generator, self._files)
        self.averaging = Averaging(ctx, trainer)
        self.cumulative_reward = 0.0
        """Sum of my_reward over all rounds of this node, those before a restart included."""
        self._round_ended = self._told_until = ctx.clock.monotonic()
        """`_told_until`: when the last row was made."""
        self._spent = (0, 0, 0, 0, 0, 0)
        """Of the shared place, by the last row."""
        self._billed = generator.bill
        """By the last row, or before this life."""
        self._ahead: dict[RoundKey, RoundWork] = {}
        self._trained = TrainedGroups()
        self.work: RoundWork

    @property
    def bill(self) -> Bill | None:
        """What generating has cost so far."""
        return self._generator.bill

    async def continue_from(self, rows: Sequence[MetricsRow]) -> RoundKey:
        """Take up the history of this node; returns the first stage that it has not done."""
        by_key = {row.key: row for row in rows}
        lived = [by_key[key] for key in sorted(by_key)]
        self.cumulative_reward = sum(row.my_reward for row in lived)
        if not lived:
            return RoundKey(0)
        for row in lived:
            self._schedule.observe(row)
            self._intake.remember(row)
        last = lived[-1]
        self._trained.recall(rows)
        self._trained.forget_before(last.round - self._ctx.settings.staleness_window)
        if self._ctx.settings.role != EVALUATOR:
            await self._files.make_up(lived)
        return stage_after(last.key, self._ctx.settings.max_stages)

    # ── generate ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def generate(self, instruction: Generate, *, on_own_clock: bool = False) -> None:
        """Ask I fresh questions and sample G completions to each, or take up what was made or published before."""
        key, now = instruction.key, self._ctx.clock.monotonic()
        if instruction.skipped:
            logger.info("rounds.skipped", count=instruction.skipped, now_at=key.round)
        oldest = max(0, key.round - self._ctx.settings.staleness_window)
        self._intake.forget_before(RoundKey(oldest))
        self._trained.forget_before(oldest)
        self._ctx.contexts.forget_before(oldest)
        for timeline in (self._ctx.writes.publishing, self._intake.fetching, self._ctx.compute.busy):
            timeline.forget_before(min(self._told_until, self._round_ended))
        ahead = self._take_ahead(key)
        attempts = self._ctx.settings.dynamic_sampling
        self.work = ahead or RoundWork(key, self._schedule.of(key), attempts=attempts)
        self.work.started, self.work.waited = now, now - self._round_ended
        self.work.clock = "own" if on_own_clock else "coordinator"
        self._intake.foresee(self._wanted_soon)
        if ahead:
            await ahead.scored.wait()
        else:
            await self.own_groups.make(self.work, self.rounds_trained, self._intake.clean)

    def _take_ahead(self, key: RoundKey) -> RoundWork | None:
        """The round if it was generated ahead; what was made for earlier ones goes."""
        for before in [k for k in self._ahead if k < key]:
            self._ahead.pop(before).skipped = True
        return self._ahead.pop(key, None)

    async def generate_ahead(self, key: RoundKey) -> None:
        """Generate and score a round's groups before it is open."""
        work = self._ahead[key] = RoundWork(key, self._schedule.of(key), ahead=True)
        await self.own_groups.make(work, self.rounds_trained)
        if not work.skipped:
            await self.own_groups.score(work)

    # ── score, publish ──────────────────────────────────────────────────────────────────────────────────────────────
    async def score(self) -> None:
        """Score the own completions, as boundedly as anybody's."""
        if not self.work.scored.is_set():
            await self.own_groups.score(self.work)

    async def publish(self) -> None:
        """Give the groups to the peers; once they are on disk they count as acknowledged."""
        work = self.work
        with self._ctx.timed(work.seconds, "publish"), self._ctx.writes.publishing.running():
            if not work.published:
                await self.own_groups.publish(work)
        work.gather_from = self._ctx.clock.monotonic()

    # ── draw ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def draw(self, instruction: Draw, tasks: TaskGroup) -> bool:
        """Sample J external groups from what these peers published; False if it was cut off."""
        work = self.work
        wanted = self._wanted(work.key, work.split.external)
        most = most_of_peer(work.split.external, self._ctx.settings.peer_share)
        work.sample = await self._intake.draw(wanted, instruction.sources, instruction.until, tasks)
        if self._sampler:
            rng = derive_random(self._ctx.settings.seed, "external", self._ctx.node_id, *work.key)
            work.external = sample_external(work.sample.groups, work.split.external, rng, self._sampler, most)
        else:
            work.external = first_of_each_peer(work.sample.informative, most)[: work.split.external]
        return work.sample.complete

    def _wanted(self, key: RoundKey, external: int) -> Wanted:
        """`peer_slots` groups of each peer take part, or all of them, where another sampler than SAPO's chooses."""
        settings = self._ctx.settings
        slots = settings.peer_groups if self._sampler else settings.peer_slots
        purpose = ("external", self._ctx.node_id, *key)
        most = None if self._sampler else most_of_peer(external, settings.peer_share)
        return Wanted(slots, None if self._sampler else external, self._trained.names, purpose, most)

    def _wanted_soon(self, key: RoundKey) -> Wanted | None:
        """For the round in hand, or one that follows; on its own clock each peer's groups may be of another round."""
        if self.work.clock == "own" or key < self.work.key:
            return None
        split = self._schedule.of(key) if key.round > self.work.key.round else self.work.split
        return self._wanted(key, split.external)

    # ── train ───────────────────────────────────────────────────────────────────────────────────────────────────────
    async def begin_update(self, key: RoundKey) -> None:
        """Add up the gradients of the own groups, which need not wait for anybody else's."""
        work = self._ahead.get(key, self.work)
        await work.scored.wait()
        own = to_train(work.own, external=False, scaling=self._scaling)
        begin = partial(self._trainer.begin_update, own)
        await self._ctx.compute_timed(work.seconds, "train", begin)
        work.begun.set()
        following = stage_after(key, self._ctx.settings.max_stages)
        following = following._replace(round=following.round + self._ctx.settings.staleness)
        if following.round < self._ctx.settings.max_rounds:
            await self.own_groups.ask_early(following)

    async def train(self, instruction: Train, around: Around) -> None:
        """Add the gradients of the external groups, make the update, and average weights where that is due."""
        work, ctx = self.work, self._ctx
        work.seconds["gather"] = ctx.clock.monotonic() - work.gather_from
        work.heard, work.awaited = instruction.heard, instruction.awaited
        work.timed_out, work.late = instruction.timed_out, instruction.late
        self._trained.add(work.external)
        await work.begun.wait()
        for ahead in list(self._ahead.values()):
            await ahead.queued.wait()  # its groups are to come from the policy before this update, whatever is slow
        external = to_train(work.external, external=True, scaling=self._scaling)
        work.report = await ctx.compute_timed(work.seconds, "train", partial(self._finish, external))
        work.seconds["train"] -= work.report.seconds_lease
        self.rounds_trained += work.report.updated
        await self.averaging.average(work, around)

    def _finish(self, external: Sequence[TrainGroup]) -> TrainReport:
        report = self._trainer.finish_update(external)
        self.work.memory = report.memory or self._ctx.process_memory()
        self.work.room = self._ctx.run.store.room()
        return report

    # ── submit ──────────────────────────────────────────────────────────────────────────────────────────────────────
    async def submit(self, live_peers: int, loop_lag: float) -> None:
        """Row first, then the reward that the coordinator waits for and the vote, then the canonical log line.

        What a judge asks comes last, when nobody waits for this round any longer.
        """
        work = self.work
        self.cumulative_reward += work.my_reward
        row = self._row(live_peers, loop_lag)
        self._ctx.pace.observe(row)
        self._schedule.observe(row)  # before anything is awaited: the next round may be generated meanwhile
        await self._files.row(row)
        await self._files.submit(row, winners(mean_rewards([*work.own, *work.sample.groups])))
        _log_round(row)
        self._foreseeing.observe(row)
        await self._hints.observe(row)
        self._round_ended = self._ctx.clock.monotonic()
        if self._ctx.run.trust.asks:
            did_work = [peer for peer, accepted in row.accepted_by_peer.items() if accepted]
            await self._ctx.blocking.run(self._ctx.run.trust.keep, did_work)
        if row.stage == self._ctx.settings.max_stages - 1:
            await self.held_out.answer(row.round, self.rounds_trained)

    def _row(self, live_peers: int, loop_lag: float) -> MetricsRow:
        work, intake, busy, now = self.work, self._intake, self._ctx.compute.busy, self._ctx.clock.monotonic()
        sharing = merge(intake.fetching.since(work.started) + self._ctx.writes.publishing.since(work.started))
        leased = work.report.seconds_lease if work.report else 0.0
        whole_round = now - self._round_ended
        counts = intake.close_round(work.key.round)
        row = metrics_row(
            work,
            timestamp=self._ctx.clock.wall(),
            node_id=self._ctx.node_id,
            experiment=self._ctx.run.experiment,
            total_agents=live_peers + 1,
            model=self._generator.name,
        )
        counts.fill(row)
        settings = self._ctx.settings
        fill_planted(row, work.own, settings.planted_words or "", settings.plants(self._ctx.node_id))
        if settings.bounds_tokens and work.report:
            row.tokens_left_out = work.report.left_out_tokens
        if not settings.trains:
            row.role = self._ctx.settings.role
        if row.role == EVALUATOR:
            row.peer_rewards = mean_rewards(work.sample.groups)
        self._schedule.fill(row, work.split)
        row.cumulative_reward = self.cumulative_reward
        row.bytes_fetched += work.weights_fetched
        row.refused_files = dict(counts.refused + self.held_out.take_refused() + self.averaging.take_refused())
        row.seconds_round = now - work.started
        row.executor_busy = (total(busy.since(self._round_ended)) - leased) / whole_round if whole_round else 0.0
        row.seconds_sharing = total(sharing)
        row.seconds_sharing_hidden = overlap(sharing, busy.since(work.started))
        row.loop_lag_max = loop_lag
        self._fill_times(row, now)
        self._fill_spent(row)
        self._fill_bill(row)
        self._fill_remote(row)
        return row

    def _fill_times(self, row: MetricsRow, now: float) -> None:
        """When the node generated, published, fetched and updated since the last row."""
        since, self._told_until = self._told_until, now
        row.generating = self._as_told(self._ctx.take_spans("generate"))
        row.publishing = self._as_told(self._ctx.writes.publishing.since(since))
        row.fetching = self._as_told(self._intake.fetching.since(since))
        row.updating = self._as_told(self._ctx.take_spans("train"))

    def _as_told(self, spans: list[Interval]) -> list[list[float]]:
        """In seconds after the round's start."""
        begun = self.work.started
        found = merge([(round(begin - begun, 3), round(end - begun, 3)) for begin, end in spans])
        return [[*span] for span in coarse(found, MOST_SPANS)]

    def _fill_remote(self, row: MetricsRow) -> None:
        """What a generation server gave since the last row, where there is one."""
        if not isinstance(self._generator, RemoteGenerator):
            return
        use = self._generator.take_use()
        row.server_gap = UNSET if use.gap is None else use.gap
        row.server_retries, row.server_away = use.retries, use.away

    def _fill_bill(self, row: MetricsRow) -> None:
        """What generating has cost since the last row, where that costs anything."""
        if (bill := self.bill) is None:
            return
        before, self._billed = self._billed or Bill(0, 0, 0, 0.0), bill
        row.endpoint_requests = bounded(bill.requests - before.requests)
        row.endpoint_tokens_in = bounded(bill.tokens_in - before.tokens_in)
        row.endpoint_tokens_out = bounded(bill.tokens_out - before.tokens_out)
        row.endpoint_money = bill.money - before.money

    def _fill_spent(self, row: MetricsRow) -> None:
        """What was asked of the shared place since the last row, where that is paid for."""
        if (spent := self._ctx.run.store.spent) is None:
            return
        before, self._spent = self._spent, spent.totals()
        since = [bounded(now - then) for now, then in zip(self._spent, before, strict=True)]
        row.store_writes, row.store_lists, row.store_reads = since[:3]
        row.store_sent, row.store_received, row.store_spared = since[3:]


def _from_to(spans: Sequence[Sequence[float]]) -> str:
    """The first begin and the last end; empty for none."""
    return f"{spans[0][0]:.2f} to {spans[-1][1]:.2f}" if spans else ""


def _log_round(row: MetricsRow) -> None:
    """The canonical line: one per node, round and stage."""
    logger.info(
        "round.completed",
        round=row.round,
        **({"stage": row.stage} if row.stage else {}),
        my_reward=round(row.my_reward, 4),
        cumulative_reward=round(row.cumulative_reward, 4),
        tagged=round(row.answer_tag_rate, 3),
        given_tagged=None if row.reward_given_tagged is UNSET else round(row.reward_given_tagged, 4),
        local=row.local_groups,
        external=f"{row.external_groups}/{row.external_wanted}",
        pool=f"{row.pool_informative}/{row.pool_groups}",
        loss=round(row.loss, 5),
        grad_norm=round(row.grad_norm, 4),
        seconds=round(row.seconds_round, 2),
        generating=_from_to(row.generating),
        publishing=_from_to(row.publishing),
        fetching=_from_to(row.fetching),
        updating=_from_to(row.updating),
        updated=row.updated,
        late=row.late,
    )
