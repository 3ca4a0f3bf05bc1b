"""What a worker sees in the folder, told as events.

    state/, rollouts/ ──wake-up, or every few seconds──▶ Clock; new files to the Intake
    peers/            ──every heartbeat interval───────▶ PeersLive

Listing the folder is the truth; a wake-up only says that it is time to list.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from swarm.config import Settings
from swarm.errors import FolderError, ProtocolError
from swarm.folder.liveness import Liveness
from swarm.folder.records import read_peers, read_state
from swarm.folder.watch import wake_ups
from swarm.logs import get_logger
from swarm.node.clock import Clock
from swarm.node.intake import Intake
from swarm.node.worker_machine import Clock as ClockSeen
from swarm.node.worker_machine import Event, PeersLive
from swarm.protocol.layout import Layout
from swarm.protocol.messages import StateFile
from swarm.types import RoundKey

logger = get_logger(__name__)


class Lookout:
    """Looks again and again, and tells."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        node_id: str,
        *,
        clock: Clock,
        intake: Intake,
        tell: Callable[[Event], None],
        working_on: Callable[[], RoundKey | None],
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._clock = clock
        self._intake = intake
        self._tell = tell
        self._working_on = working_on
        self._liveness = Liveness(settings.liveness_timeout)
        self._open_round: RoundKey | None = None
        self._complained: set[str] = set()
        self._coordinator_seen = clock.monotonic()
        self._misses_coordinator = False

    async def watch_folder(self, tasks: TaskGroup) -> None:
        """Until cancelled: the round clock, and peers' files, which are taken in by tasks of their own."""
        folders = [self._layout.state_file.parent, self._layout.rollouts]
        events = self._settings.watch == "auto"
        async with wake_ups(folders, self._settings.reconcile_interval, events=events) as wakes:
            async for _ in wakes:
                await self._look(tasks)

    async def _look(self, tasks: TaskGroup) -> None:
        state = await self._read_state()
        if state and not state.held:
            self._open_round = RoundKey(state.round, state.stage)
            now = self._clock.monotonic()
            self._tell(ClockSeen(self._open_round, state.finished, now, state.round_interval, state.max_rounds))
        if self._settings.shares:
            keys = {key for key in (self._open_round, self._working_on()) if key}
            await self._intake.look(keys, tasks)

    async def _read_state(self) -> StateFile | None:
        try:
            return await to_thread.run_sync(read_state, self._layout)
        except ProtocolError as error:
            self._complain("state.unreadable", error)
            return None

    async def watch_peers(self) -> None:
        """Until cancelled: who is alive."""
        while True:
            await self.look_at_peers()
            await anyio.sleep(self._settings.heartbeat_interval)

    async def look_at_peers(self) -> None:
        """Look now, and tell."""
        try:
            peers = await to_thread.run_sync(read_peers, self._layout)
        except FolderError as error:
            self._complain("peers.unlistable", error)
            return
        for peer in peers:
            self._liveness.observe(peer, self._clock.monotonic(), self._clock.wall())
        self._tell(PeersLive(self.live_peers(), self._clock.monotonic()))
        self._miss_coordinator()

    def _miss_coordinator(self) -> None:
        """Say once that nobody keeps the clock: without it, a worker waits for ever."""
        now = self._clock.monotonic()
        if self._liveness.live(now, role="coordinator"):
            if self._misses_coordinator:
                logger.info("coordinator.back")
            self._misses_coordinator, self._coordinator_seen = False, now
        elif not self._misses_coordinator and now - self._coordinator_seen > self._settings.liveness_timeout:
            self._misses_coordinator = True
            logger.warning(
                "coordinator.absent", experiment=self._layout.experiment, start="swarm node --role coordinator"
            )

    def live_peers(self) -> frozenset[str]:
        """The live workers other than this one."""
        return self._liveness.live(self._clock.monotonic(), role="worker") - {self._node_id}

    def _complain(self, event: str, error: Exception) -> None:
        """Once per kind: the folder is looked at every other second."""
        if event not in self._complained:
            self._complained.add(event)
            logger.warning(event, error=str(error), experiment=self._layout.experiment)
