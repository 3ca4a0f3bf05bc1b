"""Does what comes before a worker's first round: compare the experiment, load its policy, restore, redo.

Redo does the rounds between the last checkpoint and the last metrics row once more after a kill.

    checkpoint of R rounds ─▶ redo R ─▶ redo R+1 ─▶ ... ─▶ redo of the last row's round ─▶ the weights of that moment
                               │ own groups: as they were sampled, out of the completions files
                               ├ external groups: those that the row names in `trained_on`, out of their files,
                               │   wherever these lie: where they were published, or in the archive
                               └ weights that were averaged: those that it names in `averaged`, likewise

Nothing is published, no row is written and no reward submitted: all of that was done. A judge's question is answered
where the kill came before the answer. On a CPU the weights come out bit for bit as they were; a round whose update
measures what its row says counts as exact.

Where a completions file is missing (runs of earlier versions have none) or damaged, the groups are sampled again with
the same seeds; what was published stays where that gives other texts. With staleness 1 a round's groups were sampled
before the update of the round before it, and so they are here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import anyio
import msgspec

from swarm.algo.registry import advantage_scaling
from swarm.config import Settings, variable
from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.experiment import claim_experiment, publish_task_files
from swarm.node.base.looking import until_readable
from swarm.node.round import Rounds, to_train
from swarm.node.sharing.admission import OTHERS_ARE_REFUSED
from swarm.node.sharing.intake import Intake
from swarm.node.sharing.pool import GroupName, name_of, parse_names
from swarm.node.sharing.reading import PublishedGroups, gone, verified
from swarm.node.worker.checkpoints import own_rounds, restore_newest
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.hooks import RoundHooks
from swarm.node.worker.row import mean
from swarm.node.worker.saving import LastState
from swarm.node.worker.steps import measured
from swarm.records.archives import with_archive
from swarm.records.retention import Lived
from swarm.records.rows import read_own_rows
from swarm.store.run import Run
from swarm.types import Policy, RoundKey, ScoredGroup, Trainer, TrainReport
from swarm.wire.messages import NodeState
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


# ── which rounds, and with which groups ─────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class RedoPlan:
    """Lists the rounds that are to be redone, in order."""

    rounds: tuple[MetricsRow, ...]
    """Each as its row tells it."""
    lost: int = 0
    """Rounds after them that cannot be redone."""
    why: str = ""


REDONE_BY_PLUGINS = ("averaged",)
"""Columns of what changed the weights besides an update."""


def plan_redo(
    rows: Sequence[MetricsRow], checkpoint: NodeState | None, settings: Settings, redone: Collection[str] = ()
) -> RedoPlan:
    """Returns the rounds that the checkpoint does not hold, as far as they can be redone.

    Args:
        redone: columns of REDONE_BY_PLUGINS that a hook does once more.
    """
    done = RoundKey(checkpoint.rounds_done, checkpoint.stages_done or 0) if checkpoint else RoundKey(0)
    by_key = {row.key: row for row in rows if row.key >= done}
    missing = [by_key[key] for key in sorted(by_key)]
    rounds: list[MetricsRow] = []
    for row in missing:
        if why := _obstacle(row, len(rounds), checkpoint, settings, redone):
            return RedoPlan(tuple(rounds), len(missing) - len(rounds), why)
        rounds.append(row)
    return RedoPlan(tuple(rounds))


def _obstacle(
    row: MetricsRow, count: int, checkpoint: NodeState | None, settings: Settings, redone: Collection[str]
) -> str:
    if checkpoint and checkpoint.seed != settings.seed:
        return f"the checkpoint is of seed {checkpoint.seed}, this run of {settings.seed}"
    if count >= settings.redo_rounds:
        return f"more than {variable('redo_rounds')} = {settings.redo_rounds}"
    if len(parse_names(row.trained_on)) != row.external_groups:
        return f"the row of round {row.round} does not name the {row.external_groups} groups that were trained on"
    for column in REDONE_BY_PLUGINS:
        if column not in redone and getattr(row, column) not in (msgspec.UNSET, {}):
            return f"the row of round {row.round} has the column {column}, and the feature that wrote it is off here"
    return ""


# ── doing them ──────────────────────────────────────────────────────────────────────────────────────────────────────
class Redone(NamedTuple):
    """Counts the rounds that a plan has redone, and those that it has lost."""

    rounds: int
    lost: int


class Redo:
    """Carries a plan out, on the policy that the checkpoint was loaded into."""

    def __init__(self, ctx: WorkerContext, trainer: Trainer, rounds: Rounds) -> None:
        self._ctx = ctx
        self._trainer = trainer
        self._rounds = rounds
        self._published = PublishedGroups(replace(ctx, run=with_archive(ctx.run)), ctx.assigned)
        self._scaling = advantage_scaling(ctx.settings.advantage_scaling)
        self._ahead: dict[RoundKey, list[ScoredGroup]] = {}
        self._exact = 0

    async def carry_out(self, plan: RedoPlan) -> Redone:
        """Redo round after round, up to the first that cannot be had; says what was redone and what is lost."""
        begun, redone, lost, why = self._ctx.clock.monotonic(), 0, plan.lost, plan.why
        if plan.rounds:
            logger.info("rounds.redoing", first=plan.rounds[0].round, count=len(plan.rounds))
        for position, row in enumerate(plan.rounds):
            try:
                following = plan.rounds[position + 1 : position + 2]
                await self._redo(row, following, then_live=not following and not plan.lost)
            except ProtocolError as error:
                lost, why = plan.lost + len(plan.rounds) - redone, f"round {row.round}: {error}"
                break
            redone += 1
        if redone:
            seconds = round(self._ctx.clock.monotonic() - begun, 2)
            logger.info("rounds.redone", count=redone, exact=self._exact, seconds=seconds)
        if lost:
            logger.warning("rounds.lost", count=lost, why=why)
        return Redone(redone, lost)

    async def _redo(self, row: MetricsRow, following: Sequence[MetricsRow], *, then_live: bool) -> None:
        """Raises ProtocolError where a group that it was trained on, or what a feature needs of it, cannot be had any
        more; nothing has changed then."""
        async with AsyncExitStack() as stack:
            after = [await stack.enter_async_context(hook(row)) for hook in self._rounds.hooks.again]
            external = await self._external(parse_names(row.trained_on))
            own = self._ahead.pop(row.key, None) or await self._own(row)
            await self._look_ahead(row, following, then_live=then_live)
            begun = to_train(own, external=False, scaling=self._scaling)
            await self._ctx.compute.run(self._trainer.begin_update, begun)
            rest = to_train(external, external=True, scaling=self._scaling)
            report = await self._ctx.compute.run(partial(self._trainer.finish_update, rest))
            self._rounds.rounds_trained += report.updated
            answers = measured(self._ctx.settings, self._local(row), own)
            exact = _measures_the_same(answers, report, row)
            self._exact += exact
            logger.info("round.redone", round=row.round, exact=exact)
            for hook in after:
                await hook(self._rounds.rounds_trained)

    async def _look_ahead(self, row: MetricsRow, following: Sequence[MetricsRow], *, then_live: bool) -> None:
        """Writes what was written ahead, or what would be next, before the update, as the machine has it."""
        after = RoundKey(row.round + 1)
        if following and following[0].generated_ahead and following[0].key == after:
            with suppress(ProtocolError):  # it is found out again when it is that round's turn
                self._ahead[after] = await self._own(following[0])
        if then_live and self._ctx.settings.staleness and after.round < self._ctx.settings.max_rounds:
            await self._rounds.prepare(after)

    def _local(self, row: MetricsRow) -> int:
        """Returns how many own questions the round had."""
        return self._ctx.settings.local_groups if row.adaptive_I is msgspec.UNSET else row.adaptive_I

    async def _own(self, row: MetricsRow) -> list[ScoredGroup]:
        published = row.bytes_published > 0
        return await self._rounds.own_groups.again(row.key, self._local(row), published=published)

    async def _external(self, names: Sequence[GroupName]) -> list[ScoredGroup]:
        """Returns the external groups in the order of the row, for sums of floats depend on it."""
        found: dict[GroupName, ScoredGroup] = {}
        for (key, peer), wanted in groupby(sorted(names), key=attrgetter("key", "peer")):
            slots = {name.slot for name in wanted}
            admitted = await self._published.admitted(peer, key, slots)
            groups = await verified(self._ctx.task_source, admitted)
            found |= {name_of(scored.group): scored for scored in groups}
        if lost := [name for name in names if name not in found]:
            raise gone(f"{lost[0].peer} has no group {lost[0].slot} in round {lost[0].key.round}")
        return [found[name] for name in names]


def _measures_the_same(own: Sequence[ScoredGroup], report: TrainReport, row: MetricsRow) -> bool:
    """Tells whether rewards and update came out to the last digit as they did when the row was written."""
    my_reward = mean(reward for scored in own for reward in scored.rewards)
    now = (my_reward, report.loss, report.grad_norm, report.trained_tokens, report.updated)
    return now == (row.my_reward, row.loss, row.grad_norm, row.tokens_trained, row.updated)


Prepare = Callable[[], Coroutine[object, object, None]]
"""Starts what scores answers."""


class StartedWorker(NamedTuple):
    """A worker that is ready for its next round."""

    policy: Policy
    rounds: Rounds
    next: RoundKey
    rounds_saved: int
    """Behind its newest checkpoint."""
    saved: tuple[int, ...]
    """Rounds behind each of its checkpoints, up to the newest that could be loaded."""
    lived: tuple[Lived, ...]
    """In order."""
    redone: Redone


async def start(
    ctx: WorkerContext,
    load_policy: Callable[[], Policy],
    prepare: Prepare,
    intake: Intake,
    last_state: LastState,
    hooks_of: RoundHooks,
) -> StartedWorker:
    """Load what is there of this node, and redo what a kill took from its weights.

    Args:
        hooks_of: gives what joins in its rounds.
        prepare: awaited while the policy is loaded.

    Raises:
        SwarmError: the model, or a checkpoint, cannot be loaded.
    """
    kept = await ctx.blocking.run(last_state.take_up) if ctx.kept else None
    history = await until_readable(ctx, read_own_rows, ctx.run, ctx.node_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prepare)
        policy = await ctx.compute.run(load_policy)
    state, saved = await ctx.compute.run(_restored, ctx, policy, kept)
    rounds_saved = state.rounds_done if state else 0
    saved_to = RoundKey(rounds_saved, state.stages_done or 0) if state else RoundKey(0)
    hooks = hooks_of(ctx, policy, policy)
    rounds = Rounds(ctx, policy, policy, intake, hooks, state.rounds_trained if state else 0)
    following = max(saved_to, await rounds.continue_from(history.rows))
    plan = plan_redo(history.rows, state, ctx.settings, hooks.redone) if ctx.settings.trains else RedoPlan(())
    carried_out = await Redo(ctx, policy, rounds).carry_out(plan)
    loaded = tuple(one for one in saved if one <= rounds_saved)
    return StartedWorker(policy, rounds, following, rounds_saved, loaded, _lived(history.rows), carried_out)


def _lived(rows: Iterable[MetricsRow]) -> tuple[Lived, ...]:
    oldest: dict[int, int] = {}
    for row in rows:
        named = (name.key.round for name in parse_names(row.trained_on))
        oldest[row.round] = min((row.round, oldest.get(row.round, row.round), *named))
    return tuple(Lived(round_, oldest[round_]) for round_ in sorted(oldest))


def _restored(ctx: WorkerContext, policy: Policy, kept: Run | None) -> tuple[NodeState | None, list[int]]:
    """Returns the state of the newest checkpoint that can be loaded, and the rounds behind each of the place's.

    Args:
        kept: holds what this machine kept, where that is newer than the place's.

    Raises:
        CheckpointError: as restore_newest.
    """
    store, node = ctx.run.store, ctx.node_id
    state = restore_newest(kept.store, node, policy.restore) if kept else None
    return state or restore_newest(store, node, policy.restore), own_rounds(store, node)


async def compare_experiment(ctx: WorkerContext) -> None:
    """Nodes may differ on purpose; but who differs by accident should hear of it.

    Without a coordinator the first worker says what the experiment is.
    """
    claim = partial(claim_experiment, ctx, create=ctx.settings.clock == "own" and ctx.settings.trains)
    try:
        if ctx.settings.clock == "own":
            await ctx.blocking.run(publish_task_files, ctx)
        _, changed = await ctx.blocking.run(claim)
    except StoreError as error:
        logger.warning("experiment.unreadable", error=str(error))
        return
    if changed:
        logger.warning("experiment.other_settings", differences=changed, consequence=OTHERS_ARE_REFUSED)
