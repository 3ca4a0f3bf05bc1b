"""The metrics row of a round, and the canonical line of the log.

    PlayedRound ──metrics_row─▶ what the round tells itself ──RowMaker─▶ and what was measured around it since the last
                                                                             │
                                                      hooks (features.py) ───┴─▶ columns of features that are on

Columns are fields of swarm.wire.metrics.MetricsRow, so that the type checker knows their names and types.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

from msgspec import UNSET, UnsetType

from swarm.algo.advantages import is_informative
from swarm.logs import get_logger
from swarm.node.base.context import Interval, coarse, merge, overlap, total
from swarm.node.sharing.intake import Intake
from swarm.node.sharing.pool import name_of
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.steps import IJSchedule, PlayedRound, Updated
from swarm.records.progress import NodeProgress
from swarm.tasks.scoring import FULL_ANSWER
from swarm.types import Bill, Generator, Likeliness, ScoredGroup, TrainReport
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)

MOST_BYTES = 10**12
"""The largest size that a row says; readers take no larger one."""
TOTALS_EVERY = 16
"""Rows."""
MOST_SPANS = 8
"""Of one activity in a row: a round has some four."""


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean, 0.0 of nothing."""
    collected = list(values)
    return fmean(collected) if collected else 0.0


def mean_by(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Arithmetic mean of the values of each name, sorted by name."""
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, value in values:
        by_name[name].append(value)
    return {name: fmean(own) for name, own in sorted(by_name.items())}


def mean_rewards(groups: Iterable[ScoredGroup]) -> dict[str, float]:
    """Mean verified reward per completion, by peer."""
    return mean_by((scored.group.peer_id, reward) for scored in groups for reward in scored.rewards)


class RunningTotals:
    """Says in every TOTALS_EVERY-th row what all rows so far add up to, so that who looks need not read them all."""

    def __init__(self) -> None:
        self._progress = NodeProgress()
        self._rows = 0

    def take(self, rows: Sequence[MetricsRow]) -> None:
        """Take note of the rows of earlier lives."""
        self._progress.add_up(rows)
        self._rows += len(rows)

    def add_up(self, row: MetricsRow) -> None:
        """Take note of the row that comes next, whose columns are filled, and fill in the totals where they are due."""
        self.take([row])
        if self._rows % TOTALS_EVERY == 0:
            row.totals = self._progress.totals() or UNSET


class RowMaker:
    """Makes the row of each round, with what was measured since the row before."""

    def __init__(self, ctx: WorkerContext, generator: Generator, intake: Intake, schedule: IJSchedule) -> None:
        self._ctx = ctx
        self._generator = generator
        self._intake = intake
        self._schedule = schedule
        self.told_until = ctx.clock.monotonic()
        """When the last row was made."""
        self._spent = (0, 0, 0, 0, 0, 0)
        """Of the shared place, by the last row."""
        self._billed = generator.bill
        """By the last row, or before this life."""

    def row(self, played: PlayedRound, *, peers: int, cumulative: float) -> MetricsRow:
        """The row of a round that is played, but for what features add.

        Args:
            peers: live ones.
            cumulative: reward of all rounds of this node, this one included.
        """
        ctx, opened, busy = self._ctx, played.opened, self._ctx.compute.busy
        now, written_at = ctx.clock.monotonic(), ctx.clock.wall()  # one moment: a row's times count from its timestamp
        sharing = merge(self._intake.fetching.since(opened.started) + ctx.writes.publishing.since(opened.started))
        report, settings = played.updated.report, ctx.settings
        leased = report.seconds_lease if report else 0.0
        whole_round = now - opened.before
        counts = self._intake.close_round(played.key.round)
        row = metrics_row(
            played,
            timestamp=written_at,
            node_id=ctx.node_id,
            experiment=ctx.run.experiment,
            total_agents=peers + 1,
            model=self._generator.name,
        )
        counts.fill(row)
        if report and report.left_out_tokens is not None:
            row.tokens_left_out = report.left_out_tokens
        if not settings.trains:
            row.role = settings.role
        self._schedule.fill(row, opened.split)
        row.cumulative_reward = cumulative
        row.seconds_round = now - opened.started
        row.executor_busy = (total(busy.since(opened.before)) - leased) / whole_round if whole_round else 0.0
        row.seconds_sharing = total(sharing)
        row.seconds_sharing_hidden = overlap(sharing, busy.since(opened.started))
        self._fill_times(row, opened.started, now)
        self._fill_spent(row)
        self._fill_bill(row)
        return row

    def _fill_times(self, row: MetricsRow, begun: float, now: float) -> None:
        """When the node generated, published, fetched and updated since the last row."""
        since, self.told_until = self.told_until, now
        row.generating = _as_told(self._ctx.take_spans("generate"), begun)
        row.publishing = _as_told(self._ctx.writes.publishing.since(since), begun)
        row.fetching = _as_told(self._intake.fetching.since(since), begun)
        row.updating = _as_told(self._ctx.take_spans("train"), begun)

    def _fill_bill(self, row: MetricsRow) -> None:
        """Tells what generating has cost since the last row, where that costs anything."""
        if (bill := self._generator.bill) is None:
            return
        before, self._billed = self._billed or Bill(0, 0, 0, 0.0), bill
        row.endpoint_requests = bounded(bill.requests - before.requests)
        row.endpoint_tokens_in = bounded(bill.tokens_in - before.tokens_in)
        row.endpoint_tokens_out = bounded(bill.tokens_out - before.tokens_out)
        row.endpoint_money = bill.money - before.money

    def _fill_spent(self, row: MetricsRow) -> None:
        """Tells what was asked of the shared place since the last row, where that is paid for."""
        if (spent := self._ctx.run.store.facts().spent) is None:
            return
        before, self._spent = self._spent, spent.totals()
        since = [bounded(now - then) for now, then in zip(self._spent, before, strict=True)]
        row.store_writes, row.store_lists, row.store_reads = since[:3]
        row.store_sent, row.store_received, row.store_spared = since[3:]


def _as_told(spans: list[Interval], begun: float) -> list[list[float]]:
    """In seconds after the round's start."""
    found = merge([(round(begin - begun, 3), round(end - begun, 3)) for begin, end in spans])
    return [[*span] for span in coarse(found, MOST_SPANS)]


# ── what the round tells ────────────────────────────────────────────────────────────────────────────────────────────
def my_reward(played: PlayedRound) -> float:
    """Returns the mean reward per completion on the own questions."""
    return mean(reward for scored in played.measured for reward in scored.rewards)


def metrics_row(
    played: PlayedRound, *, timestamp: float, node_id: str, experiment: str, total_agents: int, model: str
) -> MetricsRow:
    """The row of a round with all that the round knows of itself; who knows more fills in its own columns."""
    opened, own, seconds = played.opened, played.own, defaultdict(float, played.seconds)
    row = MetricsRow(
        timestamp=timestamp,
        round=played.key.round,
        stage=played.key.stage,
        node_id=node_id,
        experiment=experiment,
        total_agents=total_agents,
        model=model,
        clock=opened.clock,
        my_reward=my_reward(played),
        finished_rate=mean(c.finished for scored in own.groups for c in scored.group.completions),
        train_reward=mean(r for scored in [*own.groups, *played.drawn.groups] for r in scored.rewards),
        local_groups=len(own.groups),
        zero_advantage_local=mean(not is_informative(scored.rewards) for scored in own.groups),
        score_killed=own.killed,
        score_errors=own.errors,
        tokens_generated=_tokens_generated(played),
        generated_ahead=own.sampled.ahead,
        bytes_published=played.bytes_published,
        seconds_generate=seconds["generate"],
        seconds_score=seconds["score"],
        seconds_publish=seconds["publish"],
        seconds_gather=seconds["gather"],
        seconds_train=seconds["train"],
        seconds_wait=opened.started - opened.before,
    )
    _fill_rewards(row, played.measured)
    if any(scored.group.question.turns > 1 for scored in own.groups):
        row.turns_mean = mean(len(one.texts) for scored in own.groups for one in scored.group.completions)
    _fill_sharing(row, played)
    if report := played.updated.report:
        _fill_training(row, report)
        _fill_likeliness(row, played.drawn.groups, report)
        _fill_gradient(row, played.drawn.groups, report)
    _fill_room(row, played.updated)
    return row


def _fill_rewards(row: MetricsRow, own: Sequence[ScoredGroup]) -> None:
    """Tells what the own completions earned, and apart from it which have an answer; every completion counts alike."""
    verdicts = [
        (scored.group.question.task, reward, tagged)
        for scored in own
        for reward, tagged in zip(scored.rewards, scored.answered, strict=True)
    ]
    rewards = [reward for _, reward, _ in verdicts]
    given_tagged = [reward for _, reward, tagged in verdicts if tagged]
    row.full_answer_rate = mean(reward >= FULL_ANSWER for reward in rewards)
    row.answer_tag_rate = mean(tagged for _, _, tagged in verdicts)
    row.reward_std = pstdev(rewards) if rewards else 0.0
    row.task_rewards = mean_by((task, reward) for task, reward, _ in verdicts)
    row.task_tag_rates = mean_by((task, tagged) for task, _, tagged in verdicts)
    if given_tagged:
        row.reward_given_tagged = mean(given_tagged)


def _tokens_generated(played: PlayedRound) -> int:
    """Those taken up after a crash were counted nowhere, or before it."""
    generated = [] if played.own.sampled.adopted else played.own.groups
    return sum(len(t.token_ids or ()) for scored in generated for c in scored.group.completions for t in c.every_turn)


def _fill_sharing(row: MetricsRow, played: PlayedRound) -> None:
    """Tells what came from peers."""
    external, sample = played.drawn.groups, played.drawn.sample
    row.external_groups = len(external)
    row.trained_on = [str(name_of(scored.group)) for scored in external]
    row.external_by_model = dict(sorted(Counter(s.group.model for s in external).items()))
    if licences := Counter(s.group.licence for s in external if s.group.licence):
        row.external_by_licence = dict(sorted(licences.items()))
    if consents := Counter(s.group.consent for s in external if s.group.consent):
        row.external_by_consent = dict(sorted(consents.items()))
    row.external_by_peer = dict(sorted(Counter(s.group.peer_id for s in external).items()))
    row.external_by_peer_task = _by_peer_and_task(external)
    row.pool_examined = len(sample.groups)
    row.pool_groups = sample.pool_groups
    row.pool_informative = sample.pool_informative
    row.pool_reward = mean(reward for scored in sample.judged for reward in scored.rewards)
    if gathered := played.gathered:
        row.peers_heard, row.peers_awaited = len(gathered.heard), len(gathered.awaited)
        row.gather_timed_out, row.late = gathered.timed_out, gathered.late
    row.staleness = mean(played.key.round - scored.group.round for scored in external)


def _by_peer_and_task(external: Sequence[ScoredGroup]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for scored in external:
        counts[scored.group.peer_id][scored.group.question.task] += 1
    return {peer: dict(sorted(tasks.items())) for peer, tasks in sorted(counts.items())}


def _fill_training(row: MetricsRow, report: TrainReport) -> None:
    """Tells what the update did."""
    row.tokens_trained = report.trained_tokens
    row.loss = _finite(report.loss)
    row.grad_norm = _finite(report.grad_norm)
    row.clip_fraction = _finite(report.clip_fraction)
    row.kl = _finite(report.kl)
    row.logprob_drift = _finite(report.logprob_drift)
    row.updated = report.updated
    row.groups_too_long = report.groups_too_long
    row.memory_halvings = report.memory_halvings
    row.seconds_lease = report.seconds_lease
    row.importance_tokens = report.importance_tokens
    row.importance_mean = _finite(report.importance_mean)


def _fill_likeliness(row: MetricsRow, external: Sequence[ScoredGroup], report: TrainReport) -> None:
    """How likely the policy was to write what it took from each peer."""
    sums: dict[str, list[Likeliness]] = defaultdict(list)
    for scored, found in zip(external, report.external_likeliness, strict=False):
        if found.tokens:
            sums[scored.group.peer_id].append(found)
    means = {p: sum(s.logprobs for s in found) / sum(s.tokens for s in found) for p, found in sorted(sums.items())}
    row.logprobs_by_peer = {peer: value for peer, value in means.items() if math.isfinite(value)} or UNSET


def _fill_gradient(row: MetricsRow, external: Sequence[ScoredGroup], report: TrainReport) -> None:
    """Tells what was measured of the gradient's parts, as far as it is a number."""
    if not (found := report.gradient):
        return
    row.gradient_square, row.gradient_noise = _number(found.square), _number(found.noise)
    row.gradient_alignment, row.gradient_bias = _number(found.alignment), _number(found.bias)
    alignments = zip(external, report.external_alignment, strict=True)
    known = mean_by((scored.group.peer_id, value) for scored, value in alignments if math.isfinite(value))
    row.gradient_alignment_by_peer = known or UNSET


def _number(value: float | None) -> float | UnsetType:
    return UNSET if value is None or not math.isfinite(value) else value


def _fill_room(row: MetricsRow, updated: Updated) -> None:
    """How full device and disk are."""
    if memory := updated.memory:
        row.memory_allocated, row.memory_peak = bounded(memory.allocated), bounded(memory.peak)
        row.memory_total, row.memory_free = bounded(memory.total), bounded(memory.free)
        row.memory_reserved = UNSET if memory.reserved is None else bounded(memory.reserved)
    if (room := updated.room) and room.total:
        row.disk_free, row.disk_used = bounded(room.free), 1 - min(1.0, room.free / room.total)


def bounded(size: int) -> int:
    """Bytes as a row says them: file systems without bounds claim exabytes."""
    return min(size, MOST_BYTES)


def _finite(value: float) -> float:
    """JSON knows no other numbers; a step that was not finite is seen by `updated`."""
    return value if math.isfinite(value) else 0.0


# ── the log ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def _from_to(spans: Sequence[Sequence[float]]) -> str:
    """The first begin and the last end; empty for none."""
    return f"{spans[0][0]:.2f} to {spans[-1][1]:.2f}" if spans else ""


def log_round(row: MetricsRow) -> None:
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
