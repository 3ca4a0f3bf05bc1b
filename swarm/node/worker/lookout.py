"""What a worker sees in the folder, told as events.

    state/, rollouts/ ──wake-up, or every few seconds──▶ ClockSeen; new files to the Intake
    peers/            ──every heartbeat interval───────▶ PeersLive, CoordinatorSeen

Listing the folder is the truth; a wake-up only says that it is time to list.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from swarm.config import Settings
from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.clock import Clock
from swarm.node.base.clock_file import believed_state
from swarm.node.base.log_once import LogOnce
from swarm.node.sharing.intake import Intake
from swarm.node.worker.events import ClockSeen, CoordinatorSeen, Event, PeersLive
from swarm.node.worker.worker_machine import GATHER_SHARE
from swarm.records.liveness import Liveness
from swarm.records.read import read_peers
from swarm.store.folder.fetch import list_nodes
from swarm.store.folder.watch import wake_ups
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire.layout import Layout
from swarm.wire.messages import StateFile

logger = get_logger(__name__)


class Lookout:
    """Looks again and again, and tells."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        node_id: str,
        *,
        run: Run,
        clock: Clock,
        intake: Intake,
        tell: Callable[[Event], None],
        working_on: Callable[[], RoundKey | None],
        on_own_clock: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._run = run
        self._clock = clock
        self._intake = intake
        self._tell = tell
        self._working_on = working_on
        self._on_own_clock = on_own_clock
        self._liveness = Liveness(settings.liveness_timeout)
        self._open_round: RoundKey | None = None
        self._unreadable = LogOnce("state.unreadable", over="state.readable")
        self._unlistable = LogOnce("peers.unlistable", over="peers.listable")
        self._coordinator_seen = clock.monotonic()
        self._misses_coordinator = False
        self._taken_in: set[tuple[RoundKey, str]] = set()
        self._arrival = anyio.Event()

    async def watch_folder(self, tasks: TaskGroup) -> None:
        """Until cancelled: the round clock, and peers' files, which are taken in by tasks of their own."""
        folders = [self._layout.state_file.parent, self._layout.rollouts]
        events = self._settings.watch == "auto"
        async with wake_ups(folders, self._settings.reconcile_interval, events=events) as wakes:
            async for _ in wakes:
                await self._look(tasks)

    async def _look(self, tasks: TaskGroup) -> None:
        state = None if self._settings.clock == "own" else await self._read_state()
        if state and not state.held:
            self._open_round = RoundKey(state.round, state.stage)
            now = self._clock.monotonic()
            self._tell(ClockSeen(self._open_round, state.finished, now, state.round_interval, state.max_rounds))
        if self._settings.shares:
            keys = self._rounds_to_list()
            self._forget_before(min((key.round for key in keys), default=0) - self._settings.staleness_window)
            await self._intake.look(keys, self.live_peers(), tasks)

    def _rounds_to_list(self) -> set[RoundKey]:
        """The open round and the own one; on the own clock all rounds whose groups may be taken, and no other."""
        mine = self._working_on()
        if not self._on_own_clock():
            return {key for key in (self._open_round, mine) if key}
        middle, window = mine.round if mine else 0, self._settings.staleness_window
        return {RoundKey(round_) for round_ in range(max(0, middle - window), middle + window + 1)}

    async def take_in_what_is_there(self, tasks: TaskGroup) -> None:
        """List, and wait until the files of live peers that lie there by now are taken in.

        On the own clock any of several rounds will do, so that gathering could end with the first that happens to be
        scored: what is learned should follow from what lies there, not from the order in which it came.
        """
        keys, live = self._rounds_to_list(), self.live_peers()
        there = {(key, peer) for key in keys for peer in await to_thread.run_sync(self._names, key) & live}
        await self._intake.look(keys, live, tasks)
        with anyio.move_on_after(self._settings.round_interval * GATHER_SHARE):
            while not there <= self._taken_in:
                self._arrival = anyio.Event()
                await self._arrival.wait()

    def arrived(self, key: RoundKey, peer: str) -> None:
        """The Intake is done with a file."""
        self._taken_in.add((key, peer))
        self._arrival.set()

    def _forget_before(self, round_: int) -> None:
        self._taken_in = {(key, peer) for key, peer in self._taken_in if key.round >= round_}

    async def _read_state(self) -> StateFile | None:
        state, problem = await to_thread.run_sync(believed_state, self._run)
        if problem:
            self._unreadable.found(problem)
        else:
            self._unreadable.gone()
        return state

    async def watch_peers(self) -> None:
        """Until cancelled: who is alive."""
        while True:
            await self.look_at_peers()
            await anyio.sleep(self._settings.heartbeat_interval)

    async def look_at_peers(self) -> None:
        """Look now, and tell."""
        try:
            peers = await to_thread.run_sync(read_peers, self._layout, self._liveness.moving(self._clock.monotonic()))
            publishing = await to_thread.run_sync(self._publishing)
        except StoreError as error:
            self._unlistable.found(error)
            return
        self._unlistable.gone()
        for peer in peers:
            self._liveness.observe(peer, self._clock.monotonic(), self._clock.wall())
        now = self._clock.monotonic()
        self._tell(PeersLive(self.live_peers(), now, publishing))
        self._tell(CoordinatorSeen(bool(self._liveness.live(now, role="coordinator")), now))
        self._miss_coordinator()

    def _publishing(self) -> frozenset[str]:
        """Nodes with a rollout file for the own round or the one before; for the first before this node has begun."""
        mine = self._working_on() or RoundKey(0)
        before = mine._replace(round=max(0, mine.round - 1))
        return frozenset[str]().union(*(self._names(key) for key in {mine, before}))

    def _names(self, key: RoundKey) -> set[str]:
        """The nodes with a rollout file; none where that cannot be listed, of which the Intake tells."""
        try:
            return list_nodes(self._layout.rollouts_of(key))
        except StoreError:
            return set()

    def seconds_without_coordinator(self) -> float:
        """Since one was last seen alive, or since this node began to look."""
        return self._clock.monotonic() - self._coordinator_seen

    def _miss_coordinator(self) -> None:
        """Say once that nobody keeps the clock."""
        if self._settings.clock == "own":
            return
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
