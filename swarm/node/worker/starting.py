"""Does what comes before a worker's first round: compare the experiment, load its policy, restore, redo."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import NamedTuple

import anyio

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.experiment import claim_experiment, publish_task_files
from swarm.node.base.looking import until_readable
from swarm.node.round import Rounds
from swarm.node.sharing.admission import OTHERS_ARE_REFUSED
from swarm.node.sharing.intake import Intake
from swarm.node.sharing.pool import parse_names
from swarm.node.worker.checkpoints import own_rounds, restore_newest
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.last_state import LastState
from swarm.node.worker.redo import NOTHING_TO_REDO, Redo, Redone, plan_redo
from swarm.records.retention import Lived
from swarm.records.rows import read_own_rows
from swarm.store.run import Run
from swarm.types import Policy, RoundKey
from swarm.wire.messages import NodeState
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)

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
    ctx: WorkerContext, load_policy: Callable[[], Policy], prepare: Prepare, intake: Intake, last_state: LastState
) -> StartedWorker:
    """Load what is there of this node, and redo what a kill took from its weights.

    Args:
        prepare: awaited while the policy is loaded.

    Raises:
        SwarmError: the model, or a checkpoint, cannot be loaded.
    """
    if ctx.settings.admit == "unverified":
        logger.warning("admission.unverified", consequence="where peers say no origin their answers are believed")
    kept = await ctx.blocking.run(last_state.take_up) if ctx.kept else None
    history = await until_readable(ctx, read_own_rows, ctx.run, ctx.node_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prepare)
        policy = await ctx.compute.run(load_policy)
    state, saved = await ctx.compute.run(_restored, ctx, policy, kept)
    rounds_saved = state.rounds_done if state else 0
    saved_to = RoundKey(rounds_saved, state.stages_done or 0) if state else RoundKey(0)
    rounds = Rounds(ctx, policy, policy, intake, state.rounds_trained if state else 0)
    following = max(saved_to, await rounds.continue_from(history.rows))
    redone = rounds.hooks.redone
    plan = plan_redo(history.rows, state, ctx.settings, redone) if ctx.settings.trains else NOTHING_TO_REDO
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
