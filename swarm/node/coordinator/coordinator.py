"""The coordinator daemon: owns the round clock, or waits on standby. Loads no model and imports no torch.

start ──────────────▶ active ──all rounds done────▶ end
                        │    ▲
   a rival with the     ▼    │  no other coordinator is alive
   older claim       on standby ──experiment finished──▶ end
start, standby ─────────▲
"""

from __future__ import annotations

from functools import partial

import anyio

from swarm.errors import DuplicateNodeError, ExperimentError, StoreError
from swarm.logs import get_logger
from swarm.node.base.clock_belief import believed_state
from swarm.node.base.context import NodeContext
from swarm.node.base.experiment import (
    claim_experiment,
    differences,
    is_begun,
    other_experiment,
    publish_task_files,
    read_experiment,
    record_start,
)
from swarm.node.base.looking import LogOnce
from swarm.node.base.presence import Presence, first_alive
from swarm.node.coordinator.clock_keeper import ClockKeeper
from swarm.node.coordinator.resume import is_over
from swarm.records.files import read_peers
from swarm.records.liveness import ACTIVE, STANDBY, STARTING, Liveness

logger = get_logger(__name__)


class Coordinator:
    """One coordinator of one experiment, until all rounds are done or somebody stops it."""

    def __init__(self, ctx: NodeContext) -> None:
        self._ctx = ctx
        self._liveness = Liveness(ctx.settings.cadence.liveness_timeout)
        self._presence = Presence(ctx, "coordinator", status=STANDBY if ctx.settings.standby else STARTING)
        self._life = anyio.CancelScope()
        self._stop_code: int | None = None

    async def run(self) -> int:
        """Run to the end.

        Returns:
            The exit code: 0 all rounds done, or what `stop` was given.

        Raises:
            ExperimentError: the folder holds another experiment.
            DuplicateNodeError: a live coordinator has this experiment already, and this one is not to stand by.
            StoreError: the folder cannot be written at the start.
        """
        if not self._ctx.settings.standby:
            await self._refuse_second_coordinator()
        await self._refuse_other_experiment()
        async with self._presence.held():
            with self._life:
                await self._live()
            if self._stop_code is None:
                logger.info("experiment.finished", experiment=self._ctx.run.experiment)
        return self._stop_code or 0

    def stop(self, exit_code: int) -> None:
        """Say goodbye and end with this exit code."""
        logger.info("node.stopping", exit_code=exit_code)
        self._stop_code = exit_code
        self._life.cancel()

    async def _live(self) -> None:
        await self._ctx.blocking.run(publish_task_files, self._ctx)
        claim = partial(claim_experiment, self._ctx, anew=not self._ctx.settings.standby)
        created, changed = await self._ctx.blocking.run(claim)
        if changed:
            raise ExperimentError(other_experiment(self._ctx.run, changed))
        await record_start(self._ctx)
        if created and self._ctx.run.trust.asks:
            await self._presence.beat()  # what it signed before there was an experiment is read by nobody
        if created:
            logger.info("experiment.created", experiment=self._ctx.run.experiment)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._presence.keep_beating)
            await self._serve()
            tasks.cancel_scope.cancel()

    async def _serve(self) -> None:
        """Active and on standby by turns, until all rounds are done."""
        active = not self._ctx.settings.standby
        while True:
            if not active:
                self._presence.status = STANDBY
                if not await self._clock_is_vacant():
                    return
                logger.info("coordinator.takes_over", experiment=self._ctx.run.experiment)
            self._presence.status = ACTIVE
            if await ClockKeeper(self._ctx, self._presence, self._liveness).keep():
                return
            active = False

    async def _clock_is_vacant(self) -> bool:
        """Wait until nobody keeps the clock, at least for one liveness timeout: a beat may not have been seen to move.

        Returns:
            True if no other coordinator is alive; False if the experiment is finished.
        """
        ctx, clock, liveness = self._ctx, self._ctx.clock, self._liveness
        over, since, unlistable = False, clock.monotonic(), LogOnce("folder.unlistable", over="folder.listable")
        logger.info("coordinator.stands_by", experiment=ctx.run.experiment)
        while True:
            try:
                over = await ctx.blocking.run(is_over, ctx.run, ctx.settings.max_rounds, ctx.settings.expected_names)
                peers = await ctx.blocking.run(read_peers, ctx.run)
            except StoreError as error:
                unlistable.found(error)
                since = clock.monotonic()  # who is blind sees nobody; that says nothing
            else:
                unlistable.gone()
                for peer in peers:
                    liveness.observe(peer, clock.monotonic(), clock.wall())
            now = clock.monotonic()
            others = liveness.live(now, role="coordinator", statuses=(STARTING, ACTIVE)) - {ctx.node_id}
            if over and not others:
                return False
            if not others and now - since >= ctx.settings.cadence.liveness_timeout:
                return True
            await clock.sleep(ctx.settings.cadence.heartbeat_interval)

    async def _refuse_other_experiment(self) -> None:
        """Refuses another experiment before anything of this node is in the folder; who stands by begins no experiment
        anew.

        Raises ExperimentError, and StoreError.
        """
        run, blocking = self._ctx.run, self._ctx.blocking
        experiment = await blocking.run(read_experiment, run)
        changed = differences(self._ctx.settings, experiment) if experiment else []
        if bool(changed) and (self._ctx.settings.standby or await blocking.run(is_begun, run)):
            raise ExperimentError(other_experiment(run, changed))

    async def _refuse_second_coordinator(self) -> None:
        """One clock, one owner: another one that beats is refused whatever its name.

        Of those that beat, where there is a clock, only the one that keeps it: a mere registration keeps nobody away.
        """
        ctx = self._ctx
        state, _ = await ctx.blocking.run(believed_state, ctx.run)
        peers = [
            peer
            for peer in await ctx.blocking.run(read_peers, ctx.run)
            if peer.node_role == "coordinator" and peer.peer_id != ctx.node_id and peer.status != STANDBY
            if state is None or peer.peer_id == state.updated_by
        ]
        if peer := await first_alive(ctx, peers):
            raise DuplicateNodeError(
                f"coordinator {peer.peer_id!r} already owns the clock of experiment {ctx.run.experiment!r}; "
                f"stop it first, choose another EXPERIMENT_NAME, or wait beside it with --standby to take over "
                f"when it dies"
            )
