"""Polls the shared place and turns clock, peers and coordinator into events; passes rollouts to the Intake.

    state/, rollouts/ ──wake-up, or every few seconds──▶ ClockSeen; new files to the Intake
    peers/            ──every heartbeat interval───────▶ PeersLive, CoordinatorSeen

Listing is the truth; a wake-up only says that it is time to list.

Where each request is paid for (`Settings.sparing`) nothing is looked at that nobody waits for (looking.py):

    IDLE       the state file, and its writer's registration when it changes or may have beaten
    GATHERING  the own round's rollouts; if they are not all there, the same as well
    computing  nothing; the peers as often as must be, lest they be taken for dead
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import partial

from anyio.abc import TaskGroup

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.attendance import TRACES, Submissions
from swarm.node.base.clock_belief import ClockBelief, Sighting, written_state
from swarm.node.base.context import NodeContext
from swarm.node.base.looking import LogOnce, Rhythm
from swarm.node.base.presence import PROOF_BEATS, PeersSeen, names_and_keys
from swarm.node.sharing.intake import Intake
from swarm.node.worker.events import ClockSeen, CoordinatorSeen, Event, PeersLive, Phase
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.records.files import Registrations
from swarm.records.listing import NodeFiles
from swarm.records.liveness import STARTING, Liveness
from swarm.store.wake_ups import wake_ups
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import PeerFile, StateFile

logger = get_logger(__name__)


WAITING = (Phase.IDLE, Phase.GATHERING)
MOST_ROUNDS = 16
"""That peers say they work on, and a node that has begun none looks into."""
DOUBT_LASTS = 2.0
"""Times as long as a jump of the clock has to stay: an honest one is believed by then, and its doubt worth no word."""


class Lookout:
    """Looks again and again, and tells."""

    def __init__(self, ctx: NodeContext, machine: WorkerMachine, intake: Intake, tell: Callable[[Event], None]) -> None:
        """`machine` is only looked at: on which round it works, and by whose clock."""
        self._ctx = ctx
        self._machine = machine
        self._intake = intake
        self._tell = tell
        self._peers = PeersSeen(ctx, Liveness(ctx.settings.cadence.liveness_timeout))
        self._open_round: RoundKey | None = None
        settle = PROOF_BEATS * ctx.settings.cadence.heartbeat_interval
        self._belief = ClockBelief(settle)
        self._submissions = Submissions(ctx.run, ctx.clock.monotonic, ctx.settings.expected_names)
        self._files = NodeFiles(ctx.run.store, ctx.clock.monotonic)
        self._doubtful = LogOnce("state.doubted", over="state.undoubted", patience=DOUBT_LASTS * settle)
        self._unreadable = LogOnce("state.unreadable", over="state.readable")
        self._unlistable = LogOnce("peers.unlistable", over="peers.listable")
        self._coordinators: frozenset[str] = frozenset()
        """Who has written the state file that was read last."""
        self._coordinator_seen = ctx.clock.monotonic()
        self._misses_coordinator = False
        self._rhythm = Rhythm(ctx.clock, ctx.settings.cadence.heartbeat_interval)
        self._phase, self._looks = machine.phase, 0
        """What the machine waited for lately, and how often it was looked for."""
        self._peers_looked_at = -math.inf
        self._written: tuple[StateFile, PeerFile] | None = None
        self._writer_read = -math.inf
        """When the registration in it was read."""

    # ── the round clock, and peers' files ───────────────────────────────────────────────────────────────────────────
    async def watch_rounds(self, tasks: TaskGroup) -> None:
        """Watches the round clock and peers' files, which tasks of their own take in, until cancelled."""
        ctx, prefixes = self._ctx, [keys.STATE.partition("/")[0], keys.ROLLOUTS]
        interval, hints = ctx.settings.cadence.reconcile_interval, ctx.settings.cadence.watch == "auto"
        sleep = self._rhythm.sleep if ctx.settings.sparing else ctx.clock.sleep

        def stages() -> list[str]:
            return [keys.rollouts(key) for key in self._rounds_to_list()]

        async with wake_ups(ctx.run.store, prefixes, interval, sleep, hints=hints, among_them=stages) as wakes:
            async for _ in wakes:
                if self._machine.phase in WAITING or not ctx.settings.sparing:
                    await self._look(tasks)
                    if pause := min(self._intake.good_for, interval):
                        await ctx.clock.sleep(pause)  # what comes meanwhile is found by the look after it

    def turn(self) -> None:
        """The machine may be in another phase: what it waits for now is looked for at once."""
        if self._machine.phase is self._phase:
            return
        self._phase, self._looks = self._machine.phase, 0
        if self._phase in WAITING:
            self._rhythm.quicken()
        else:
            self._rhythm.rest()

    async def _look(self, tasks: TaskGroup) -> None:
        settings = self._ctx.settings
        self._looks += 1
        only_rollouts = settings.sparing and self._machine.phase is Phase.GATHERING and self._looks == 1
        seen = None if settings.clock == "own" or only_rollouts else await self._read_state()
        if seen and await self._believes(seen):
            before, self._open_round = self._open_round, seen.key
            back = before is not None and seen.key < before
            told = (seen.state.finished, seen.now, self._belief.interval, self._belief.announced)
            self._tell(ClockSeen(seen.key, *told, back=back))
        if settings.shares and (self._machine.phase is Phase.GATHERING or not settings.sparing):
            await self.list_rollouts(tasks)

    def _rounds_to_list(self) -> set[RoundKey]:
        """Returns the open round and the own one; on the own clock all rounds whose groups may be taken, no other."""
        mine = self._machine.key
        if not self._machine.on_own_clock:
            return {key for key in (None if self._ctx.settings.sparing else self._open_round, mine) if key}
        middle, window = mine.round if mine else 0, self._ctx.settings.staleness_window
        rounds, stages = range(max(0, middle - window), middle + window + 1), range(self._ctx.settings.max_stages)
        return {RoundKey(round_, stage) for round_ in rounds for stage in stages}

    async def list_rollouts(self, tasks: TaskGroup) -> None:
        """Now, all rounds whose groups may be taken."""
        await self._intake.look(self._rounds_to_list(), self.live_peers(), tasks)

    def found_something(self) -> None:
        """The Intake has: the next looks come soon."""
        self._rhythm.keep_pace()

    async def _read_state(self) -> Sighting | None:
        began = self._ctx.clock.monotonic()
        stays = self._ctx.settings.sparing and began - self._writer_read < self._ctx.settings.cadence.heartbeat_interval
        known = self._written if stays else None
        try:
            read = partial(written_state, self._ctx.run, known=known, read_writer=self._peers.read_one)
            written, problem = await self._ctx.blocking.run(read)
        except StoreError as error:
            written, problem = None, str(error)
        if problem:
            self._unreadable.found(problem)
        else:
            self._unreadable.gone()
        if not written:
            return None
        if written is not known:
            self._written, self._writer_read = written, began
        (state, writer), clock = written, self._ctx.clock
        self._coordinators = frozenset({writer.peer_id})
        self._peers.liveness.observe(writer, clock.monotonic(), clock.wall())
        alive = self._peers.coordinators()
        return Sighting(state, writer, clock.monotonic(), alive=writer.peer_id in alive, nobody=not alive)

    async def _believes(self, seen: Sighting) -> bool:
        done, traces = self._machine.rounds_done, False
        if self._belief.needs_traces(seen, done):
            traces = await self._ctx.blocking.run(self._submissions.lie_before, seen.state.round)
            self._submissions.forget_before(seen.state.round - TRACES)
        if self._belief.believes(seen, done, traces=traces):
            self._doubtful.gone()
            return True
        if not seen.state.held and seen.key >= (self._open_round or seen.key):
            self._doubtful.found(f"round {seen.state.round}{', finished' if seen.state.finished else ''}", seen.now)
        return False

    # ── who is alive ────────────────────────────────────────────────────────────────────────────────────────────────
    async def watch_peers(self) -> None:
        """Watches who is alive, until cancelled."""
        while True:
            if self._peers_are_due():
                await self.look_at_peers()
            await self._ctx.clock.sleep(self._ctx.settings.cadence.heartbeat_interval)

    def _peers_are_due(self) -> bool:
        """Tells whether peers are due: in a node that computes, where looks are spared, only as often as they must be
        seen to beat."""
        settings, ago = self._ctx.settings, self._ctx.clock.monotonic() - self._peers_looked_at
        if not settings.sparing:
            return True
        waits = self._machine.phase in (Phase.LOADING, *WAITING)
        beat = settings.cadence.heartbeat_interval
        seldom = settings.cadence.liveness_timeout - 2.5 * beat  # beats may be two intervals apart
        return ago >= (beat / 2 if waits else seldom)

    async def look_at_peers(self) -> None:
        """Look now, and tell. Where the folder cannot be listed, no heartbeat is seen to move."""
        clock, publishing = self._ctx.clock, frozenset[str]()
        began = self._peers_looked_at = clock.monotonic()
        try:
            moving, earned = self._peers.liveness.moving(began), self._machine.earned | self._coordinators
            read = partial(self._peers.read, moving, earned, at_once=self._waited_for())
            seen, publishing = await self._ctx.blocking.run(self._see_peers, read, self.live_peers())
            self._peers.note(seen)
        except StoreError as error:
            self._unlistable.found(error)
        else:
            self._unlistable.gone()
            for peer in seen.fresh:
                if peer.status != STARTING:  # who waits for the experiment does not know yet what it will ask
                    self._intake.mixtures.registered(peer.peer_id, peer.mixture)
                if self._written and self._written[1].peer_id == peer.peer_id:
                    self._written, self._writer_read = (self._written[0], peer), began
            self._miss_coordinator()
        live = self.live_peers()
        called = names_and_keys(self._ctx, live | {self._ctx.node_id})
        self._tell(PeersLive(live, clock.monotonic(), publishing, called, self._peers.workers(STARTING)))
        self._tell(CoordinatorSeen(bool(self._peers.coordinators(began)), began))

    def _see_peers(
        self, read: Callable[[], Registrations], live: frozenset[str]
    ) -> tuple[Registrations, frozenset[str]]:
        """Returns the registrations, and who is `_publishing`. Blocking. Raises StoreError."""
        seen = read()
        return seen, self._publishing(seen.peers, live)

    def _waited_for(self) -> frozenset[str]:
        """Returns peers that have not published what this node waits for: it has to see at once if one leaves."""
        key = self._machine.key
        return self.live_peers() - self._intake.listed(key) if key and self._machine.phase in WAITING else frozenset()

    def _publishing(self, peers: Sequence[PeerFile], live: frozenset[str]) -> frozenset[str]:
        """Returns nodes with a rollout file for the own round or the one before; before this node has begun, for the
        first.

        The first may be cleaned away: then for those that peers work on which lived at the look before.
        """
        mine = self._machine.key
        if mine is None:
            said = Counter(peer.round for peer in peers if peer.peer_id in live and peer.round > 0)
            rounds = (0, *(round_ for round_, _ in said.most_common(MOST_ROUNDS)))
            return next(filter(None, (frozenset(self._nodes(RoundKey(one), live)) for one in rounds)), frozenset())
        if self._ctx.settings.sparing:
            return self._intake.listed(mine)
        return self._intake.listed(mine) | self._nodes(mine._replace(round=max(0, mine.round - 1)), live)

    def _nodes(self, key: RoundKey, live: frozenset[str]) -> Set[str]:
        """Returns the nodes with a rollout file; none where that cannot be listed, of which the Intake tells."""
        try:
            known, max_age = live | self._machine.earned, self._ctx.settings.cadence.liveness_timeout / 4
            return self._files.find(keys.rollouts(key), known, max_age=max_age).keys()
        except StoreError:
            return frozenset()

    def seconds_without_coordinator(self) -> float:
        """Returns the seconds since a coordinator was last seen alive, or since this node began to look."""
        return self._ctx.clock.monotonic() - self._coordinator_seen

    def _miss_coordinator(self) -> None:
        """Say once that nobody keeps the clock."""
        settings, now = self._ctx.settings, self._ctx.clock.monotonic()
        if settings.clock == "own":
            return
        if self._peers.coordinators():
            if self._misses_coordinator:
                logger.info("coordinator.back")
            self._misses_coordinator, self._coordinator_seen = False, now
        elif not self._misses_coordinator and now - self._coordinator_seen > settings.cadence.liveness_timeout:
            self._misses_coordinator = True
            logger.warning(
                "coordinator.absent", experiment=self._ctx.run.experiment, start="swarm node --role coordinator"
            )

    def known_peers(self) -> frozenset[str]:
        """Returns the workers other than this one that are registered, dead or alive."""
        return self._peers.liveness.known(role="worker") - {self._ctx.node_id}

    def live_peers(self) -> frozenset[str]:
        """Returns the live workers other than this one."""
        return self._peers.workers() - {self._ctx.node_id}
