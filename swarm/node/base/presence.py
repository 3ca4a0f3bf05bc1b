"""A node's registration and heartbeat in `peers/{node}.json`.

One live process per node id: the second one refuses to start. There is no lock on a replicated folder, so this is
settled by what can be read: a registration of a process of this machine that runs no more is dead, any other one alive
if it is seen to beat (Heartbeats). Two that slipped in at the same moment notice each other by their incarnation,
and the one that registered later gives way to the other's beats. A claim that does not beat is written over, and said
once. A beat that somebody wrote higher than the own one would make this node look dead: the next own one is higher.

Where each request is paid for, every second beat is left out of a node that has gone on to another round since, or that
beat for another reason a moment ago.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Set
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from swarm.config import variable
from swarm.config.task_table import as_mixture
from swarm.errors import DuplicateNodeError, ExperimentError, StoreError
from swarm.harmless import quoted
from swarm.logs import begin_files, get_logger
from swarm.node.base.context import NodeContext
from swarm.node.base.looking import LogOnce
from swarm.records.files import PeerReader, Registrations, read_peer, read_peers
from swarm.records.liveness import ACTIVE, STARTING, STOPPED, Liveness, process_runs
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile

logger = get_logger(__name__)

MOST_MOVING = 256
"""Registrations that are read before others because they move."""
MOST_AT_ONCE = 64
"""Nodes that are waited for whose registrations are read at every look."""
LISTED_PER_TIMEOUT = 8
"""Times that the registrations of more nodes are listed before one counts as dead."""
HIGHEST_BEAT = 2**52
"""A registration can hold twice as much, and no life comes to it by itself."""


async def first_alive(ctx: NodeContext, holders: Collection[PeerFile]) -> PeerFile | None:
    """Returns one of some registrations whose process still runs, by its beat; None if none does.

    All are watched together for a few heartbeat intervals, and for as many again once one of them has moved: a claim
    that somebody put there once is no beat, and a busy process may beat late. That a process of this machine has the
    number that one names proves nothing: numbers stand in every registration. Beats from before a time in which this
    process stood still prove nothing either; that is believed once.
    """
    waiting = [peer for peer in holders if peer.status != STOPPED and process_runs(peer, ctx.process) is not False]
    interval, fresh = ctx.settings.cadence.heartbeat_interval, True
    hearts = Heartbeats(proof=2)
    for peer in waiting:
        hearts.observe(peer)
    names, left, longer = {peer.peer_id for peer in waiting}, PROOF_BEATS if waiting else 0, True
    while left:
        began = ctx.clock.monotonic()
        await ctx.clock.sleep(interval)
        if fresh and ctx.clock.monotonic() - began > PROOF_BEATS * interval:  # this process stood still
            hearts, left, longer, fresh = Heartbeats(proof=2), PROOF_BEATS, True, False
        for peer in await ctx.blocking.run(read_peers, ctx.run, names):
            if peer.peer_id in names and hearts.observe(peer) and peer.status != STOPPED:
                return peer
        left -= 1
        if longer and hearts.any_moved:
            left, longer = PROOF_BEATS, False
    return None


def left_behind(ctx: NodeContext, peer: PeerFile) -> bool:
    """Tells whether a registration is that of a process of this machine that runs no more.

    One that was killed a moment ago looks alive by its last heartbeat. A swarm that is started again right after it was
    killed as a whole must not count such registrations in the place of the nodes that are about to come back.
    """
    return process_runs(peer, ctx.process) is False


class PeersSeen:
    """The other nodes of a run as one node sees them, look by look: who is registered, and which workers live.

    Each registration is read often enough to see that it beats. Where requests are spared, a changed tag in the listing
    is enough, and nodes at work are read again only while they are waited for.
    """

    def __init__(self, ctx: NodeContext, liveness: Liveness) -> None:
        pause = math.inf if ctx.settings.sparing else ctx.settings.cadence.liveness_timeout / 4
        self._ctx = ctx
        self._reader = PeerReader(ctx.run, ctx.clock.monotonic, own=ctx.node_id, pause=pause)
        self.read_one = self._reader.read_one
        self.liveness = liveness
        self._dead: frozenset[str] = frozenset()
        """Nodes whose processes on this machine are gone. They hold nobody up until a time-out, unless workers are
        expected by number or name: whoever started those starts them again."""

    def read(
        self,
        moving: Set[str],
        earned: Set[str] = frozenset(),
        *,
        max_age: float = 0.0,
        at_once: Set[str] = frozenset(),
    ) -> Registrations:
        """Look at the registrations, less those that were `left_behind` before this node looked for the first time.
        Blocking.

        Args:
            moving: nodes whose heartbeat moves, as this node has seen.
            earned: nodes that have done their part: however many others move, these are seen.
            max_age: seconds for which a listing is good enough; of many nodes it is longer.
            at_once: nodes that are waited for: these are looked at whatever the age of the listing; of many none holds
                anybody up.
        """
        last = at_once if len(at_once) <= MOST_AT_ONCE else ()
        if len(moving) > MOST_AT_ONCE:
            max_age = max(max_age, self._ctx.settings.cadence.liveness_timeout / LISTED_PER_TIMEOUT)
        known = moving | earned if len(moving) < MOST_MOVING else earned
        seen = self._reader.read(known, max_age, last, moving)
        peers, fresh = self._not_left_behind(seen.peers, moving), self._not_left_behind(seen.fresh, moving)
        return Registrations(peers, fresh, seen.stirred)

    def note(self, seen: Registrations) -> None:
        """Takes note of what `read` gave."""
        clock = self._ctx.clock
        for peer in seen.fresh:
            self.liveness.observe(peer, clock.monotonic(), clock.wall())
        self.liveness.stir(seen.stirred, clock.monotonic())
        if self._ctx.settings.expected_workers is None:
            self._dead = frozenset(peer.peer_id for peer in seen.peers if left_behind(self._ctx, peer))

    def workers(self, status: str = ACTIVE) -> frozenset[str]:
        """Returns the live workers in a status."""
        now = self._ctx.clock.monotonic()
        return self.liveness.live(now, role="worker", statuses=(status,)) - self._dead

    def coordinators(self, now: float | None = None) -> frozenset[str]:
        """Returns the live coordinators; `now`: by what was seen until then, monotonic seconds."""
        return self.liveness.live(self._ctx.clock.monotonic() if now is None else now, role="coordinator")

    def _not_left_behind(self, peers: Iterable[PeerFile], moving: Set[str]) -> list[PeerFile]:
        return [peer for peer in peers if peer.peer_id in moving or not left_behind(self._ctx, peer)]


def names_and_keys(ctx: NodeContext, nodes: Iterable[str]) -> frozenset[str]:
    """Returns what the setting `expected_workers` may call some nodes: their names, and the keys they sign with."""
    named = frozenset(nodes)
    if not ctx.settings.expected_names:
        return named
    return named | {key for node in named if (key := ctx.run.trust.key_of(node))}


def _machine(peer: PeerFile) -> str:
    return peer.host.partition("/")[0] or "an unknown machine"


def _as_text(mixture: Mapping[str, float] | UnsetType) -> str:
    return "all tasks" if mixture is UNSET else quoted(as_mixture(mixture))


class Presence:
    """This process's own registration."""

    def __init__(
        self,
        ctx: NodeContext,
        role: str,
        *,
        status: str = STARTING,
        model: str = "",
        mixture: Mapping[str, float] | None = None,
        changes: Iterable[Callable[[PeerFile], PeerFile]] = (),
    ) -> None:
        """`changes`: what plugins make of the registration."""
        self._ctx = ctx
        self._changes = tuple(changes)
        self._role = role
        self.status = status
        self.model = model
        self._mixture = mixture
        self.round = -1
        self.stage = 0
        self.needs_from = 0
        """The first round whose rollouts this node may still read."""
        self._phase, self._phase_since = "", 0.0
        self._registered_at = 0.0
        self._dead_until = -math.inf
        """Lives that began until then were over when this one began."""
        self._beat = 0
        self._beaten_at, self._beaten_in = -math.inf, -1
        """When the last beat was written, monotonic seconds, and in which round."""
        self._left_out = False
        """The beat that was due last."""
        self._gave_way = False
        self._incarnation = ctx.process.incarnation
        self._lives = 1
        self._rivals = Heartbeats()
        self._failing = LogOnce("heartbeat.failed", over="heartbeat.healed")
        self._contested = LogOnce("node_id.contested", over="node_id.uncontested")

    @property
    def phase(self) -> str:
        """Returns what the node does now, in words for people."""
        return self._phase

    @phase.setter
    def phase(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._phase_since = phase, self._ctx.clock.wall()

    @property
    def claim(self) -> tuple[float, str]:
        """Returns this process's claim: of two processes that want the same thing, the one with the smaller claim has
        it."""
        return self._registered_at, self._incarnation

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the node id for the block, and say goodbye at its end, so that nobody waits for this node.

        A block that is cancelled ends like a node that is killed: nothing more is written. Raises as `register`.
        """
        await self.register()
        try:
            yield
        except Exception:
            await self._leave()
            raise
        await self._leave()

    async def register(self) -> None:
        """Take the node id.

        Raises:
            DuplicateNodeError: a live process has it.
            ExperimentError: it asked another mixture of tasks in its rounds before.
            StoreError: the folder cannot be written.
        """
        ctx = self._ctx
        holder = await self._written()
        if holder and await first_alive(ctx, [holder]):
            raise DuplicateNodeError(
                f"node id {ctx.node_id!r} is taken in experiment {ctx.run.experiment!r}: process {holder.pid} on "
                f"{_machine(holder)}, a {holder.node_role}, is alive; stop it or choose another NODE_ID"
            )
        if holder and holder.round >= 0:
            self._refuse_other_mixture(holder)
        self._registered_at = ctx.clock.wall()
        self._dead_until = holder.registered_at if holder else -math.inf
        await self.beat(durable=True)  # what this node writes is believed only as long as it is registered
        begin_files(ctx.node_id)  # not before: they may have been another process's

    def _refuse_other_mixture(self, before: PeerFile) -> None:
        mine, known = self._registration().mixture, before.mixture
        if before.node_role == self._role and mine != known:
            raise ExperimentError(
                f"{self._ctx.node_id} asked {_as_text(known)} in this experiment, and is to ask {_as_text(mine)} now: "
                f"a mixture is fixed for the run, and peers refuse another one. Leave {variable('mixture')} as it was, "
                "or give the node another NODE_ID"
            )

    async def beat(self, *, durable: bool = False) -> None:
        """Write one heartbeat."""
        await self._write(partial(self._put, durable=durable))

    async def _beat_on(self) -> None:
        """Write the next heartbeat in the place of the last one; if something else stands there, look at it first.

        Raises as `_give_way`, and StoreError.
        """
        other = await self._write(self._put_over_own)
        if other is not None:
            self._give_way(other)
            await self.beat()
        else:
            self._contested.gone()

    async def _write(self, put: Callable[[PeerFile], PeerFile | None]) -> PeerFile | None:
        self._beat += 1
        round_, other = self.round, await self._ctx.blocking.run(put, self._registration())
        if other is None:
            self._beaten_at, self._beaten_in, self._left_out = self._ctx.clock.monotonic(), round_, False
        return other

    def _put(self, file: PeerFile, *, durable: bool = False) -> None:
        """Blocking."""
        self._ctx.run.put_sealed(keys.peer(self._ctx.node_id), encode(file), durable=durable)

    def _put_over_own(self, file: PeerFile) -> PeerFile | None:
        """Returns what stands there and is no earlier beat of this life; None: it was written over. Blocking."""
        there = read_peer(self._ctx.run, self._ctx.node_id)
        if there is not None and (there.incarnation != file.incarnation or there.beat >= file.beat):
            return there
        self._put(file)
        return None

    def _registration(self) -> PeerFile:
        ctx = self._ctx
        file = PeerFile(
            peer_id=ctx.node_id,
            registered_at=self._registered_at,
            node_role=self._role,
            beat=self._beat,
            last_seen=ctx.clock.wall(),
            status=self.status,
            round=self.round,
            stage=self.stage,
            phase=self._phase,
            phase_since=self._phase_since,
            heartbeat_interval=ctx.settings.cadence.heartbeat_interval,
            incarnation=self._incarnation,
            host=ctx.process.host,
            pid=ctx.process.pid,
            process_started_at=ctx.process.started_at,
            model=self.model,
            needs_from=self.needs_from,
            trains=UNSET if ctx.settings.trains or ctx.settings.role == "coordinator" else False,
            mixture=UNSET if self._mixture is None else dict(self._mixture),
        )
        for change in self._changes:
            file = change(file)
        return file

    async def _written(self) -> PeerFile | None:
        return await self._ctx.blocking.run(read_peer, self._ctx.run, self._ctx.node_id)

    async def keep_beating(self) -> None:
        """Heartbeats until cancelled. A beat that cannot be written is logged; the next one tries again.

        Raises:
            DuplicateNodeError: another process took the id and has the older claim.
            StoreError: this node is `astray`.
        """
        while True:
            await self._ctx.clock.sleep(self._ctx.settings.cadence.heartbeat_interval)
            if self._may_be_left_out():
                self._left_out = True
                continue
            try:
                await self._beat_on()
            except StoreError as error:
                if error.astray:
                    raise
                self._failing.found(error)
            else:
                self._failing.gone()

    def _may_be_left_out(self) -> bool:
        """Tells whether a beat may be left out: where requests are spared, one in two at most, of a node whose last one
        was written for another reason a moment ago, or that has gone on to another round since, as its files of that
        round show."""
        if not self._ctx.settings.sparing or self._left_out:
            return False
        ago = self._ctx.clock.monotonic() - self._beaten_at
        return self.round != self._beaten_in or ago < self._ctx.settings.cadence.heartbeat_interval / 2

    def _give_way(self, written: PeerFile) -> None:
        """Look at what stands in the place of the last beat: this node's own, or somebody else's.

        Raises:
            DuplicateNodeError: another process with the older claim, which beats.
        """
        if written.incarnation == self._incarnation:
            self._outbeat(written)
            self._contested.gone()
            return
        if written.status == STOPPED or left_behind(self._ctx, written) or written.registered_at <= self._dead_until:
            return  # the last words of a dead one, which were late, or which somebody recorded
        if (written.registered_at, written.incarnation) >= self.claim:
            return  # it is the other one's turn to give way
        if not self._rivals.observe(written):
            self._contested.found(f"process {written.pid} on {_machine(written)} claims it")
            return
        self._gave_way = True
        raise DuplicateNodeError(
            f"node id {self._ctx.node_id!r} is used by two processes: process {written.pid} on "
            f"{_machine(written)} registered first; this one ends"
        )

    def _outbeat(self, written: PeerFile) -> None:
        if written.beat > self._beat:  # nobody has written that but a stranger
            self._beat = written.beat
        if self._beat >= HIGHEST_BEAT:
            self._lives += 1
            self._incarnation, self._beat = f"{self._ctx.process.incarnation}-{self._lives}", 0

    async def _leave(self) -> None:
        """Say goodbye, unless another process has the name now."""
        if self._gave_way:
            return  # the file speaks for the other process now
        self.status = STOPPED
        try:
            await self.beat()
        except StoreError as error:
            logger.warning("heartbeat.failed", error=str(error))


PROOF_BEATS = 3
"""Later beats of one incarnation that show that it lives; and the heartbeat intervals in which they are watched for."""
MOST_WATCHED = 4096
"""Names that are remembered, the latest."""


class _Watched(NamedTuple):
    incarnation: str
    beat: int
    """The highest that was seen."""
    moved: int
    """How often it was seen to grow."""


class Heartbeats:
    """Tells registrations that beat from those that merely lie there. Pure.

    A registration is a file, and whoever can write files can write one; so nobody gives way to one for what it says,
    but only after one and the same incarnation in it has been seen to beat again and again.
    """

    def __init__(self, proof: int = PROOF_BEATS) -> None:
        self._proof = proof
        self._watched: dict[str, _Watched] = {}

    @property
    def any_moved(self) -> bool:
        """One of them was seen to grow, be it once."""
        return any(watched.moved for watched in self._watched.values())

    def observe(self, peer: PeerFile) -> bool:
        """Take note of one look; whether its incarnation has been seen to beat.

        Another incarnation begins anew, so that files which are put back by turns do not look like one that lives.
        """
        before = self._watched.pop(peer.peer_id, None)
        if before is None or before.incarnation != peer.incarnation:
            now = _Watched(peer.incarnation, peer.beat, 0)
        elif peer.beat > before.beat:
            now = _Watched(peer.incarnation, peer.beat, before.moved + 1)
        else:
            now = before
        self._watched[peer.peer_id] = now
        if len(self._watched) > MOST_WATCHED:
            del self._watched[next(iter(self._watched))]
        return now.moved >= self._proof
