"""Saver: takes a snapshot, writes it as a checkpoint, and handles failed writes."""

from __future__ import annotations

from functools import partial

import anyio
from msgspec import UNSET

from swarm.errors import CheckpointError, StoreError
from swarm.logs import get_logger
from swarm.node.base.write_queue import PATIENCE_AT_STOP
from swarm.node.round import Rounds
from swarm.node.worker.checkpoints import save_checkpoint
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.events import Phase, Saved, SaveFailed
from swarm.node.worker.last_state import LastState, say_kept
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.types import Policy, RoundKey
from swarm.wire.messages import NodeState

logger = get_logger(__name__)

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
            return SaveFailed(*done)
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
                return SaveFailed(*done)
            if in_time.cancelled_caught:
                logger.warning("checkpoint.too_slow", rounds_done=rounds_done, seconds=most)
                await self._keep(done)
                return Saved(*done)
        if self._ctx.kept:
            await self._ctx.blocking.run(self._last_state.let_go)
        self._said_behind = False
        logger.info("checkpoint.saved", rounds_done=rounds_done, folder=where)
        return Saved(*done)

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
        snapshot = await self._ctx.compute.run(self._policy.snapshot)
        keep = partial(say_kept, self._last_state, self._state(done), snapshot, self._ctx.writes.rows())
        await self._ctx.blocking.run(keep)

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
