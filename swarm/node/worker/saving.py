"""Saver takes a snapshot, writes it as a checkpoint, and handles failed writes.

LastState keeps what a node saves of itself in its user's own state folder, because its place takes no more.

    place refuses the last rows or the last checkpoint ─▶ keep ─▶ {kept}/experiments/{experiment}-{digest}/
    next start ─▶ take_up: is it newer than the place's? ─▶ rows to the place, weights from here ─▶ Saver: a checkpoint
    in the place ─▶ let_go

What is kept is an ordinary place, with one checkpoint of this node and the rows that were not written. The digest is of
when and by whom the experiment was made, so that another one of its name, there or elsewhere, is never taken for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio
import msgspec
from msgspec import UNSET

from swarm.errors import CheckpointError, ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.base.write_queue import PATIENCE_AT_STOP
from swarm.node.round import Rounds
from swarm.node.worker.checkpoints import STATE, own_rounds, read_state, save_checkpoint
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.events import Phase, Saved, SaveFailed
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.records.files import read_experiment
from swarm.records.rows import read_own_rows
from swarm.store.base import Store
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.types import Policy, RoundKey, Snapshot
from swarm.wire import keys
from swarm.wire.messages import NodeState
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


class LastState:
    """Keeps one node's state in its user's own folder while the place takes no more. Blocking."""

    def __init__(self, ctx: NodeContext) -> None:
        self._ctx = ctx
        self._opened: Run | None = None

    def keep(self, state: NodeState, snapshot: Snapshot, rows: Sequence[MetricsRow]) -> str:
        """Write it, in the place of what was kept before; says where it is.

        Raises:
            StoreError, CheckpointError: it cannot be written there either, or nobody knows whose state it would be.
        """
        run, node = self._run(), self._ctx.node_id
        if run is None:
            raise StoreError("what this experiment is cannot be read, so its state could never be recognised")
        run.store.remove(keys.metrics(node))
        _append(run, node, rows)
        return save_checkpoint(run.store, state, snapshot, keep=1)

    def take_up(self) -> Run | None:
        """Returns the run that was kept, if it is newer than what the place has, once the rows that the place lacked
        are there.

        Raises:
            StoreError: the place cannot be read, or takes no rows yet.
        """
        node, store = self._ctx.node_id, self._ctx.run.store
        run = self._run()
        kept = own_rounds(run.store, node) if run else []
        if run is None or not kept or kept[-1] <= _newest_saved(store, node):
            return None
        there = {row.key for row in read_own_rows(self._ctx.run, node).rows}
        lacking = [row for row in read_own_rows(run, node).rows if row.key > max(there, default=RoundKey(-1))]
        _append(self._ctx.run, node, lacking)
        where = run.store.describe(keys.checkpoint(kept[-1], node))
        logger.info("checkpoint.taken_up", folder=where, rounds_done=kept[-1], rows=len(lacking))
        return run

    def let_go(self) -> None:
        """The place has it, or something newer."""
        if self._opened is None:
            return
        with suppress(StoreError, ProtocolError):
            for rounds_done in own_rounds(self._opened.store, self._ctx.node_id):
                self._opened.store.remove_prefix(keys.checkpoint(rounds_done, self._ctx.node_id))
            self._opened.store.remove(keys.metrics(self._ctx.node_id))

    def _run(self) -> Run | None:
        """Returns where this node's state of this experiment is kept; None: nowhere, or nobody knows which experiment
        it is."""
        if self._opened is None and self._ctx.kept:
            with suppress(ProtocolError, StoreError):
                if made := read_experiment(self._ctx.run):
                    said = f"{made.experiment_name}\0{made.created_at!r}\0{made.created_by}".encode()
                    digest = hashlib.blake2b(said, digest_size=8).hexdigest()
                    name = f"{self._ctx.run.experiment}-{digest}"
                    self._opened = open_place(self._ctx.kept).open(name, writer=self._ctx.node_id)
        return self._opened


def _newest_saved(store: Store, node: str) -> int:
    """Returns the rounds behind the newest checkpoint that says of itself what its path says: a folder is made by
    anybody."""
    for rounds_done in reversed(own_rounds(store, node)):
        prefix = keys.checkpoint(rounds_done, node)
        with suppress(CheckpointError, ProtocolError, FileNotFoundError), store.open_bundle(prefix) as folder:
            return read_state(f"{folder}/{STATE}", store.describe(prefix), node, rounds_done).rounds_done
    return 0


def _append(run: Run, node: str, rows: Sequence[MetricsRow]) -> None:
    if rows:
        run.store.append_records(keys.metrics(node), [msgspec.json.encode(row) for row in rows], durable=True)


SAVE_PAUSE = 2.0
"""Seconds between attempts at the last checkpoint."""


class Saver:
    """Saves one worker's checkpoints. One on the way that fails costs no round; the last one is tried for a while."""

    def __init__(
        self, ctx: WorkerContext, machine: WorkerMachine, policy: Policy, rounds: Rounds, last_state: LastState
    ) -> None:
        self._ctx = ctx
        self._last_state = last_state
        self._machine = machine
        self._policy = policy
        self._rounds = rounds
        self._writing = anyio.Lock()
        self._said_behind = False
        self._failing_since: float | None = None

    async def save(self, done: RoundKey) -> Saved | SaveFailed:
        """Snapshot in the compute thread, quickly; write beside it, slowly.

        No checkpoint may say more than the rows that are on disk, and on a slow disk no snapshots pile up in memory:
        one that is due too early is left out, and due again after the next round.

        Raises:
            StoreError, CheckpointError: what ends the node: its last rows, or its last checkpoint, cannot be written.
        """
        rounds_done = done.round
        if self._is_last(done):
            try:
                await self._ctx.writes.flush(PATIENCE_AT_STOP, rows_alone=True)
            except StoreError:
                await self._keep(done)
                raise
        elif why := self._why_not_now():
            if not self._said_behind:
                logger.warning("checkpoint.skipped", rounds_done=rounds_done, why=why, next="after the next round")
            self._said_behind = True
            return SaveFailed(done)
        async with self._writing:
            stopped = self._is_last(done) and self._machine.is_stopping() and bool(self._ctx.kept)
            most = self._ctx.settings.stop_seconds if stopped else None
            try:
                with self._ctx.clock.move_on_after(most) as in_time:
                    where = await self._write(done, leave=stopped)
            except CheckpointError as error:
                if self._failing_since is None:
                    logger.error("checkpoint.failed", rounds_done=rounds_done, error=str(error))
                if self._is_last(done):
                    try:
                        await self._wait_to_try_again(error)
                    except CheckpointError:
                        await self._keep(done)
                        raise
                return SaveFailed(done)
            if in_time.cancelled_caught:
                logger.warning("checkpoint.too_slow", rounds_done=rounds_done, seconds=most)
                await self._keep(done)
                return Saved(done)
        if self._ctx.kept:
            await self._ctx.blocking.run(self._last_state.let_go)
        self._said_behind = False
        logger.info("checkpoint.saved", rounds_done=rounds_done, folder=where)
        return Saved(done)

    def _is_last(self, done: RoundKey) -> bool:
        return self._machine.phase is Phase.SAVING and done == self._machine.next

    def _why_not_now(self) -> str:
        if self._ctx.writes.keeps_back:
            return "rows wait to be written"
        return "the one before is still being written" if self._writing.locked() else ""

    async def _keep(self, done: RoundKey) -> None:
        """The place takes no more, or not in time: what would be lost goes to this machine's own state folder."""
        if not self._ctx.kept:
            return
        snapshot, rows = await self._ctx.compute.run(self._policy.snapshot), self._ctx.writes.rows()
        try:
            where = await self._ctx.blocking.run(self._last_state.keep, self._state(done), snapshot, rows)
        except (StoreError, CheckpointError) as error:
            logger.error("checkpoint.lost", rounds_done=done.round, error=str(error))
        else:
            again = "start this node again once its place takes files: it goes on from there"
            logger.warning("checkpoint.kept", folder=where, rounds_done=done.round, rows=len(rows), next=again)

    async def _write(self, done: RoundKey, *, leave: bool) -> str:
        """`leave`: who cancels it does not wait for what is on its way."""
        state = self._state(done)
        snapshot = await self._ctx.compute.run(self._policy.snapshot)  # now: the next update must not be in it
        settings = self._ctx.settings
        kept = {"keep": settings.checkpoint_keep, "stages": settings.max_stages}
        run = self._ctx.blocking.run_or_leave if leave else self._ctx.blocking.run
        return await run(partial(save_checkpoint, self._ctx.run.store, state, snapshot, **kept))

    def _state(self, done: RoundKey) -> NodeState:
        return NodeState(
            node_id=self._ctx.node_id,
            rounds_done=done.round,
            stages_done=done.stage or UNSET,
            rounds_trained=self._rounds.rounds_trained,
            seed=self._ctx.settings.seed,
            cumulative_reward=self._rounds.cumulative_reward,
            model=self._policy.name,
            prompt_date=getattr(self._policy, "prompt_date", None) or UNSET,
        )

    async def _wait_to_try_again(self, error: CheckpointError) -> None:
        """Waits to try again: without the last checkpoint what was learned would be lost, and that is no success."""
        now = self._ctx.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            logger.warning(
                "node.waits",
                for_what="its last checkpoint to be written",
                at_most=f"{PATIENCE_AT_STOP:g} s",
                again="Ctrl-C once more ends it at once, and what was learned since the checkpoint before is lost",
            )
        blocked = isinstance(error.__cause__, StoreError) and error.__cause__.blocked
        if blocked or now - self._failing_since > PATIENCE_AT_STOP:
            raise error
        await self._ctx.clock.sleep(SAVE_PAUSE)
