"""One round of a worker, told in one place: Rounds.play_round, from the first line to the last.

    ask ─▶ generate ─▶ score ─▶ publish ─▶ gather ─▶ draw ─▶ update ─▶ submit
                                  │                           │
    the compute thread meanwhile: └▶ begin_update (own) ──────┴▶ finish_update (external)

Each step hands a frozen record to the next (worker/steps.py). Between two of them the round tells WorkerMachine how far
it has come and awaits what that decides: the machine knows the clock, who is alive and awaited, and whether the node is
to stop. Before the publishing it may decide nothing more: then the round is undone, and comes out the same next time.

    play_round      waits for  its own compute steps and scoring children; in `gather` the machine
    prepare         with staleness: makes and scores the own groups of a round that is not open yet; play_round takes
                    them up, unless the clock leaves that round out
    begin_update    adds up the gradients of the own groups, also of a round that is prepared, while peers are awaited

Features join in by hooks (worker/hooks.py), of which features.py makes those that are on: before publishing, after
drawing, after the update, columns of the row, after the row. own_groups.py makes the own groups, round_files.py brings
what a round leaves to the shared place, row.py makes its row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from anyio.abc import TaskGroup

from swarm.algo.advantages import Scaling, group_advantages
from swarm.algo.registry import advantage_scaling, sampler
from swarm.algo.sampling import OwnRewards, first_of_each_peer, knowing, most_of_peer, sample_external, winners
from swarm.algo.seeds import derive_random
from swarm.logs import get_logger
from swarm.node.sharing.intake import Intake, WantedDraw
from swarm.node.sharing.pool import GroupName, name_of, parse_names
from swarm.node.worker import events as m
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.hooks import Hooks, Peers
from swarm.node.worker.own_groups import OwnGroups
from swarm.node.worker.round_files import RoundFiles
from swarm.node.worker.row import RowMaker, RunningTotals, log_round, mean_rewards, my_reward
from swarm.node.worker.steps import (
    External,
    IJSchedule,
    OpenedRound,
    Own,
    OwnHalf,
    PlayedRound,
    Seconds,
    Updated,
    measured,
)
from swarm.records.liveness import EVALUATOR
from swarm.records.retention import Lived
from swarm.types import Bill, Generator, RoundKey, ScoredGroup, Trainer, TrainGroup, stage_after
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


@dataclass(frozen=True)
class PlayingNode:
    """Gives a round what it needs of the node that plays it."""

    peers: Peers
    tell: Callable[[m.Event], Awaitable[m.Instruction]]
    """Tells the machine how far the round has come, and returns what it decides on that. Never returns where the round
    is undone: its task is cancelled."""
    look: Callable[[], Awaitable[None]]
    """Sees who is there, and on a clock of its own what they have published."""
    tasks: TaskGroup


class Rounds:
    """Plays one round after the other."""

    def __init__(
        self,
        ctx: WorkerContext,
        generator: Generator,
        trainer: Trainer,
        intake: Intake,
        hooks: Hooks,
        rounds_trained: int,
    ) -> None:
        self._ctx = ctx
        self._generator = generator
        self._trainer = trainer
        self._intake = intake
        self.rounds_trained = rounds_trained
        """Rounds that changed the weights."""
        self._sampler = sampler(ctx.settings.sampler)
        self._own_rewards = OwnRewards()
        self._scaling = advantage_scaling(ctx.settings.advantage_scaling)
        self._schedule = IJSchedule(ctx.settings, ctx.node_id)
        self._files = RoundFiles(ctx)
        self._rows = RowMaker(ctx, generator, intake, self._schedule)
        self._totals = RunningTotals()
        self.own_groups = OwnGroups(ctx, generator, self._files)
        self.hooks = hooks
        self.cumulative_reward = 0.0
        """Sum of my_reward over all rounds of this node, those before a restart included."""
        self._ended = ctx.clock.monotonic()
        """When the last round had."""
        self._trained: set[GroupName] = set()
        """External groups that are not drawn again, for as long as they may come again."""
        self._ahead: dict[RoundKey, OwnHalf] = {}
        """The own groups of rounds that are not open yet."""
        self._half: OwnHalf
        """The own groups of the round in hand."""

    @property
    def bill(self) -> Bill | None:
        """Tells what generating has cost so far."""
        return self._generator.bill

    async def continue_from(self, rows: Sequence[MetricsRow]) -> RoundKey:
        """Take up the history of this node; returns the first stage that it has not done."""
        by_key = {row.key: row for row in rows}
        lived = [by_key[key] for key in sorted(by_key)]
        self.cumulative_reward = sum(row.my_reward for row in lived)
        self._totals.take(rows)
        if not lived:
            return RoundKey(0)
        for row in lived:
            self._schedule.observe(row)
            self._own_rewards.observe(row.task_rewards)
            self._intake.remember(row)
            self._trained.update(parse_names(row.trained_on))
        if self._ctx.settings.role != EVALUATOR:
            await self._files.make_up(lived)
        return stage_after(lived[-1].key, self._ctx.settings.max_stages)

    # ── a round ─────────────────────────────────────────────────────────────────────────────────────────────────────
    async def play_round(
        self, begins: m.Generate, around: PlayingNode, *, on_own_clock: bool
    ) -> tuple[Lived, frozenset[str]]:
        """Play one stage of one round; returns it and who was alive, once its reward is submitted."""
        opened, now = self._open(begins, on_own_clock=on_own_clock), self._ctx.clock.monotonic
        key, half = opened.key, self._half

        if half.ahead:  # asked, generated and scored while the round before was played
            await half.scored.wait()
        else:
            await self._generate(half)
        await around.tell(m.StepDone(m.Phase.GENERATING, key))

        own = await self._score(half)
        await around.tell(m.StepDone(m.Phase.SCORING, key))  # the machine has begin_update started as well

        size = await self._publish(own, half.seconds)  # hooks: before publishing
        gather_from = now()
        await around.look()
        published = m.StepDone(m.Phase.PUBLISHING, key, now())
        decided = await around.tell(published)  # gathers: once who is awaited is there, or not in time

        drawn = External()
        while isinstance(decided, m.Draw):  # again, where somebody is to be waited for after all
            drawn = await self._draw(opened, decided, around.tasks)
            decided = await around.tell(m.Drawn(key, drawn.sample.complete, now()))
        assert isinstance(decided, m.Train)
        half.seconds["gather"] = now() - gather_from

        for after_drawing in self.hooks.after_drawing:
            drawn = after_drawing(opened, drawn)
        updated = await self._update(half, drawn)
        for after_update in self.hooks.after_update:
            await after_update(opened, half.seconds, around.peers)

        counts = measured(self._ctx.settings, opened.split.local, own.groups)
        played = PlayedRound(opened, own, size, drawn, decided, updated, half.seconds, counts)
        live = around.peers.live()
        row = self._row(played, len(live))  # hooks: columns of the row
        await around.tell(m.StepDone(m.Phase.TRAINING, key))

        await self._submit(row, played)  # hooks: after the row
        return Lived(key.round, min((key.round, *(scored.group.round for scored in drawn.groups)))), live

    # ── its steps ───────────────────────────────────────────────────────────────────────────────────────────────────
    def _open(self, begins: m.Generate, *, on_own_clock: bool) -> OpenedRound:
        """Takes up the own groups if they were made ahead; forgets what is over, and rounds that were left out."""
        key, now = begins.key, self._ctx.clock.monotonic()
        if begins.skipped:
            logger.info("rounds.skipped", count=begins.skipped, now_at=key.round)
        self._forget_before(max(0, key.round - self._ctx.settings.staleness_window))
        for before in [k for k in self._ahead if k < key]:
            self._ahead.pop(before).skip()
        half = self._ahead.pop(key) if key in self._ahead else OwnHalf(key, self._schedule.of(key))
        self._half = half
        opened = OpenedRound(key, half.split, "own" if on_own_clock else "coordinator", now, self._ended)
        self._intake.foresee(partial(self._wanted_soon, opened))
        return opened

    def _forget_before(self, oldest: int) -> None:
        self._intake.forget_before(RoundKey(oldest))
        self._trained = {name for name in self._trained if name.key.round >= oldest}
        if self._ctx.contexts:
            self._ctx.contexts.forget_before(oldest)
        for timeline in (self._ctx.writes.publishing, self._intake.fetching, self._ctx.compute.busy):
            timeline.forget_before(min(self._rows.told_until, self._ended))

    async def _generate(self, half: OwnHalf) -> None:
        """Ask I questions and sample G completions to each, or take up what was made or published before."""
        rounds_trained = self.rounds_trained
        asked, left = await self.own_groups.ask(half, self._intake.clean if not half.ahead else frozenset())
        await self.own_groups.generate(half, asked, left, rounds_trained)

    async def _score(self, half: OwnHalf) -> Own:
        """Score the own completions, as boundedly as anybody's, unless they are."""
        if not half.scored.is_set():
            await self.own_groups.score(half)
        assert half.own
        return half.own

    async def _publish(self, own: Own, seconds: Seconds) -> int:
        """Give the groups to the peers; once they are on disk they count as acknowledged."""
        with self._ctx.timed(seconds, "publish"), self._ctx.writes.publishing.running():
            return await self.own_groups.publish(own)

    async def _draw(self, opened: OpenedRound, draw: m.Draw, tasks: TaskGroup) -> External:
        """Sample J external groups from what these peers published."""
        count, key = opened.split.external, opened.key
        most = most_of_peer(count, self._ctx.settings.peer_share)
        sample = await self._intake.draw(self._wanted(key, count), draw.sources, draw.until, tasks)
        if self._sampler:
            rng = derive_random(self._ctx.settings.seed, "external", self._ctx.node_id, *key)
            chooses = knowing(self._sampler, self._own_rewards)
            return External(sample_external(sample.groups, count, rng, chooses, most), sample)
        return External(first_of_each_peer(sample.informative, most)[:count], sample)

    async def _update(self, half: OwnHalf, drawn: External) -> Updated:
        """Add the gradients of the external groups to those of the own, and make the update."""
        self._trained |= {name_of(scored.group) for scored in drawn.groups}
        await half.begun.wait()
        for ahead in list(self._ahead.values()):
            await ahead.queued.wait()  # its groups are to come from the policy before this update, whatever is slow
        external = to_train(drawn.groups, external=True, scaling=self._scaling)
        updated = await self._ctx.compute_timed(half.seconds, "train", partial(self._finish_update, external))
        assert updated.report
        half.seconds["train"] -= updated.report.seconds_lease
        self.rounds_trained += updated.report.updated
        return updated

    def _finish_update(self, external: Sequence[TrainGroup]) -> Updated:
        """Makes the update; in the compute thread."""
        report = self._trainer.finish_update(external)
        return Updated(report, report.memory or self._ctx.process_memory(), self._ctx.run.store.facts().room)

    def _row(self, played: PlayedRound, peers: int) -> MetricsRow:
        """The row, observed before the machine hears of the update: the next round may be generated then."""
        self.cumulative_reward += my_reward(played)
        row = self._rows.row(played, peers=peers, cumulative=self.cumulative_reward)
        for fill in self.hooks.columns:
            fill(row, played)
        self._totals.add_up(row)
        self._ctx.pace.observe(row)
        self._schedule.observe(row)
        self._own_rewards.observe(row.task_rewards)
        return row

    async def _submit(self, row: MetricsRow, played: PlayedRound) -> None:
        """Row first, then the reward that the coordinator waits for and the vote, then the canonical log line.

        What nobody waits for comes last.
        """
        await self._files.row(row)
        await self._files.submit(row, winners(mean_rewards([*played.own.groups, *played.drawn.sample.groups])))
        log_round(row)
        self._ended = self._ctx.clock.monotonic()
        if self._ctx.run.trust.asks:
            did_work = [peer for peer, accepted in row.accepted_by_peer.items() if accepted]
            await self._ctx.blocking.run(self._ctx.run.trust.keep, did_work)
        for after_row in self.hooks.after_row:
            await after_row(row, self.rounds_trained)

    # ── beside it ───────────────────────────────────────────────────────────────────────────────────────────────────
    async def prepare(self, key: RoundKey) -> None:
        """Make and score a round's own groups before it is open."""
        half = self._ahead[key] = OwnHalf(key, self._schedule.of(key), ahead=True)
        await self._generate(half)
        if not half.skipped:
            await self.own_groups.score(half)

    async def begin_update(self, key: RoundKey) -> None:
        """Add up the gradients of the own groups, which need not wait for anybody else's."""
        half = self._ahead.get(key, self._half)
        await half.scored.wait()
        if half.skipped or not half.own:
            return  # by now the sum may be that of the round that is played instead
        own = to_train(half.own.groups, external=False, scaling=self._scaling)
        await self._ctx.compute_timed(half.seconds, "train", partial(self._trainer.begin_update, own))
        half.begun.set()
        following = stage_after(key, self._ctx.settings.max_stages)
        following = following._replace(round=following.round + self._ctx.settings.staleness)
        if following.round < self._ctx.settings.max_rounds:
            await self.own_groups.ask_early(following)
        for after_own_half in self.hooks.after_own_half:
            await after_own_half(half)

    def _wanted_soon(self, opened: OpenedRound, key: RoundKey) -> WantedDraw | None:
        """Tells what is drawn for the round in hand, or one that follows, as far as that is known.

        On its own clock each peer's groups may be of another round.
        """
        if opened.clock == "own" or key < opened.key:
            return None
        split = self._schedule.of(key) if key.round > opened.key.round else opened.split
        return self._wanted(key, split.external)

    def _wanted(self, key: RoundKey, external: int) -> WantedDraw:
        """`peer_slots` groups of each peer take part, or all of them, where another sampler than SAPO's chooses."""
        settings = self._ctx.settings
        slots = settings.limits.peer_groups if self._sampler else settings.peer_slots
        purpose = ("external", self._ctx.node_id, *key)
        most = None if self._sampler else most_of_peer(external, settings.peer_share)
        return WantedDraw(slots, None if self._sampler else external, self._trained, purpose, most)


def to_train(groups: Iterable[ScoredGroup], *, external: bool, scaling: Scaling) -> list[TrainGroup]:
    """Returns groups with group-relative advantages in the place of rewards."""
    return [
        TrainGroup(
            prompt=scored.group.question.prompt,
            completions=scored.group.completions,
            advantages=group_advantages(scored.rewards, scaling),
            external=external,
            tokenizer=scored.group.tokenizer,
        )
        for scored in groups
    ]
