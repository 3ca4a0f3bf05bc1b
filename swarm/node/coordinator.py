"""The coordinator daemon: carries out what CoordinatorMachine decides. Loads no model and imports no torch.

rewards/, peers/ ──wake-up, or every second──▶ look ──▶ CoordinatorMachine ──▶ state/current_state.json ──▶ workers
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
from anyio import to_thread

from swarm.config import Settings
from swarm.errors import DuplicateNodeError, FolderError
from swarm.folder.fetch import list_nodes
from swarm.folder.liveness import ACTIVE, Liveness
from swarm.folder.records import read_peers
from swarm.folder.watch import wake_ups
from swarm.logs import get_logger
from swarm.node.clock import Clock
from swarm.node.coordinator_machine import CoordinatorMachine, Look, WriteState
from swarm.node.experiment import claim_experiment
from swarm.node.patience import publish_patiently
from swarm.node.presence import Presence, is_alive
from swarm.node.resume import resume_point
from swarm.node.stopping import on_signals
from swarm.protocol.codec import encode
from swarm.protocol.layout import Layout
from swarm.protocol.messages import StateFile
from swarm.types import RoundKey

logger = get_logger(__name__)


class Coordinator:
    """Owns the round clock of one experiment until all rounds are done or somebody stops it."""

    def __init__(
        self, settings: Settings, layout: Layout, node_id: str, *, versions: dict[str, str], clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._versions = versions
        self._clock = clock or Clock()
        self._created_at = self._clock.wall()
        self._liveness = Liveness(settings.liveness_timeout)
        self._stop_code: int | None = None
        self._awaiting: frozenset[str] | None = None
        self._machine = CoordinatorMachine(
            max_rounds=settings.max_rounds,
            max_stages=settings.max_stages,
            interval=settings.round_interval,
            expected_workers=settings.expected_workers,
        )

    async def run(self) -> int:
        """Run to the end.

        Returns:
            The exit code: 0 all rounds done, 130 or 143 stopped by a signal.

        Raises:
            ExperimentError: the folder holds another experiment.
            DuplicateNodeError: a live coordinator has this experiment already.
            FolderError: the folder cannot be written.
        """
        presence = Presence(self._layout, self._node_id, "coordinator", self._settings.heartbeat_interval, self._clock)
        await self._refuse_second_coordinator()
        await presence.register()
        try:
            return await self._run(presence)
        finally:
            await presence.leave()

    async def _run(self, presence: Presence) -> int:
        created = await to_thread.run_sync(
            claim_experiment, self._settings, self._layout, self._node_id, self._clock, self._versions
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on_signals, lambda code: self._stop(code, tasks.cancel_scope))
            tasks.start_soon(presence.keep_beating)
            await self._resume(created)
            presence.status = ACTIVE
            if not self._machine.finished:
                await self._keep_time(presence)
            tasks.cancel_scope.cancel()
        if self._stop_code is None:
            logger.info("experiment.finished", rounds=self._settings.max_rounds)
        return self._stop_code or 0

    def _stop(self, code: int, scope: anyio.CancelScope) -> None:
        logger.info("node.stopping", exit_code=code)
        self._stop_code = code
        scope.cancel()

    async def _refuse_second_coordinator(self) -> None:
        """One clock, one owner: another live coordinator is refused whatever its name."""
        for peer in await to_thread.run_sync(read_peers, self._layout):
            if peer.node_role != "coordinator" or peer.peer_id == self._node_id:
                continue
            if await is_alive(self._layout, peer, self._settings.heartbeat_interval):
                raise DuplicateNodeError(
                    f"coordinator {peer.peer_id!r} already owns the clock of experiment {self._layout.experiment!r}; "
                    f"stop it first, or choose another EXPERIMENT_NAME"
                )

    async def _resume(self, created: bool) -> None:
        key, state, damage = await to_thread.run_sync(resume_point, self._layout)
        if damage:
            logger.warning("state.unreadable", error=damage, resumed_from="rounds found in the folder", round=key.round)
        if state:
            self._created_at = state.created_at
        logger.info(
            "coordinator.ready",
            experiment=self._layout.experiment,
            created=created,
            round=key.round,
            stage=key.stage,
            max_rounds=self._settings.max_rounds,
            expected_workers=self._settings.expected_workers,
        )
        if write := self._machine.resume(key):
            await self._write(write)
        elif state or damage or key > RoundKey(0):
            await self._write(WriteState(key, finished=False, reason="resumed"), held=True)

    async def _keep_time(self, presence: Presence) -> None:
        folders = [self._layout.rewards, self._layout.peers]
        interval = min(self._settings.reconcile_interval, self._settings.heartbeat_interval)
        async with wake_ups(folders, interval, events=self._settings.watch == "auto") as wakes:
            async for _ in wakes:
                while (look := await self._look()) and (write := self._machine.handle(look)):
                    await self._write(write)
                    presence.round, presence.stage = write.key
                if self._machine.finished:
                    return

    async def _look(self) -> Look | None:
        """None if the folder cannot be listed right now: the next wake-up tries again."""
        key = self._machine.key
        try:
            peers = await to_thread.run_sync(read_peers, self._layout)
            submitted = await to_thread.run_sync(list_nodes, self._layout.rewards_of(key)) if key else set()
        except FolderError as error:
            logger.warning("folder.unlistable", error=str(error))
            return None
        for peer in peers:
            self._liveness.observe(peer, self._clock.monotonic(), self._clock.wall())
        now = self._clock.monotonic()
        live = self._liveness.live(now, role="worker")
        if key is None and live != self._awaiting:
            logger.info("workers.awaited", present=sorted(live), expected=self._settings.expected_workers)
            self._awaiting = live
        return Look(now, live, frozenset(submitted))

    async def _write(self, write: WriteState, *, held: bool = False) -> None:
        now = self._clock.wall()
        state = StateFile(
            round=write.key.round,
            stage=write.key.stage,
            created_at=self._created_at,
            updated_at=now,
            updated_by=self._node_id,
            experiment_name=self._layout.experiment,
            max_rounds=self._settings.max_rounds,
            finished=write.finished,
            held=held,
            round_opened_at=now,
            round_interval=self._settings.round_interval,
        )
        await publish_patiently(self._layout.state_file, encode(state), self._layout.temporary(self._node_id))
        logger.info(
            "round.held" if held else "round.last_closed" if write.finished else "round.opened",
            round=write.key.round,
            stage=write.key.stage,
            reason=write.reason,
            missing=sorted(write.missing),
        )
