"""The coordinator daemon: owns the round clock, or waits on standby. Loads no model and imports no torch.

start ──────────────▶ active ──all rounds done────▶ end
                        │    ▲
   a rival with the     ▼    │  no other coordinator is alive
   older claim       on standby ──experiment finished──▶ end
start, standby ─────────▲
"""

from __future__ import annotations

import anyio
from anyio import to_thread

from swarm.config import Settings
from swarm.errors import DuplicateNodeError
from swarm.logs import get_logger
from swarm.node.base.clock import Clock
from swarm.node.base.experiment import claim_experiment
from swarm.node.base.presence import Presence, is_alive
from swarm.node.coordinator.clock_keeper import ClockKeeper
from swarm.node.coordinator.standby import clock_is_vacant
from swarm.node.process.stopping import on_signals
from swarm.records.liveness import ACTIVE, STANDBY, STARTING, Liveness
from swarm.records.read import read_peers
from swarm.wire.layout import Layout

logger = get_logger(__name__)


class Coordinator:
    """One coordinator of one experiment, until all rounds are done or somebody stops it."""

    def __init__(
        self, settings: Settings, layout: Layout, node_id: str, *, versions: dict[str, str], clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._versions = versions
        self._clock = clock or Clock()
        self._liveness = Liveness(settings.liveness_timeout)
        self._presence = Presence(layout, node_id, "coordinator", settings.heartbeat_interval, self._clock)
        self._stop_code: int | None = None

    async def run(self) -> int:
        """Run to the end.

        Returns:
            The exit code: 0 all rounds done, 130 or 143 stopped by a signal.

        Raises:
            ExperimentError: the folder holds another experiment.
            DuplicateNodeError: a live coordinator has this experiment already, and this one is not to stand by.
            StoreError: the folder cannot be written at the start.
        """
        if not self._settings.standby:
            await self._refuse_second_coordinator()
        self._presence.status = STANDBY if self._settings.standby else STARTING
        await self._presence.register()
        try:
            return await self._run()
        finally:
            await self._presence.leave()

    async def _run(self) -> int:
        created = await to_thread.run_sync(
            claim_experiment, self._settings, self._layout, self._node_id, self._clock, self._versions
        )
        if created:
            logger.info("experiment.created", experiment=self._layout.experiment)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on_signals, lambda code: self._stop(code, tasks.cancel_scope))
            tasks.start_soon(self._presence.keep_beating)
            await self._serve()
            tasks.cancel_scope.cancel()
        if self._stop_code is None:
            logger.info("experiment.finished", experiment=self._layout.experiment)
        return self._stop_code or 0

    def _stop(self, code: int, scope: anyio.CancelScope) -> None:
        logger.info("node.stopping", exit_code=code)
        self._stop_code = code
        scope.cancel()

    async def _serve(self) -> None:
        """In office and on standby by turns, until all rounds are done."""
        active = not self._settings.standby
        while True:
            if not active:
                self._presence.status = STANDBY
                if not await clock_is_vacant(self._settings, self._layout, self._node_id, self._liveness, self._clock):
                    return
                logger.info("coordinator.takes_over", experiment=self._layout.experiment)
            self._presence.status = ACTIVE
            keeper = ClockKeeper(self._settings, self._layout, self._presence, self._liveness, self._clock)
            if await keeper.keep():
                return
            active = False

    async def _refuse_second_coordinator(self) -> None:
        """One clock, one owner: another live coordinator is refused whatever its name."""
        for peer in await to_thread.run_sync(read_peers, self._layout):
            if peer.node_role != "coordinator" or peer.peer_id == self._node_id or peer.status == STANDBY:
                continue
            if await is_alive(self._layout, peer, self._settings.heartbeat_interval):
                raise DuplicateNodeError(
                    f"coordinator {peer.peer_id!r} already owns the clock of experiment {self._layout.experiment!r}; "
                    f"stop it first, choose another EXPERIMENT_NAME, or wait beside it with --standby to take over "
                    f"when it dies"
                )
