"""What a coordinator sees in the shared place: who is alive, who has submitted, what the state file says. Blocking."""

from __future__ import annotations

from swarm.errors import StoreError
from swarm.node.base.clock_file import believed_state
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import LogOnce
from swarm.node.base.presence import Presence
from swarm.node.base.submissions import Submissions
from swarm.node.coordinator.coordinator_machine import FolderClock, Look, majority_front
from swarm.records.files import read_peers
from swarm.records.liveness import Liveness
from swarm.types import RoundKey
from swarm.wire.messages import PeerFile, StateFile


class Observer:
    """Looks, again and again."""

    def __init__(self, ctx: NodeContext, presence: Presence, liveness: Liveness) -> None:
        self._ctx = ctx
        self._presence = presence
        self._liveness = liveness
        self._submissions = Submissions(ctx.run)
        self._unlistable = LogOnce("folder.unlistable", over="folder.listable")

    def look(self, key: RoundKey) -> Look | None:
        """What there is to be seen of a round; None if nobody can tell who is there, or where the clock is."""
        clock = self._ctx.clock
        try:
            peers = read_peers(self._ctx.run, self._liveness.moving(clock.monotonic()))
            state = self.state(key)
        except StoreError as error:
            self._unlistable.found(error)
            return None
        for peer in peers:
            self._liveness.observe(peer, clock.monotonic(), clock.wall())
        now = clock.monotonic()
        live = self._liveness.live(now, role="worker")
        return Look(
            now=now,
            live=live,
            submitted=self._submitted(key),
            clock=clock_of(state) if state else None,
            front=majority_front(key, live, self._submitted),
            submitted_before=self._submitted_before(key),
            rival=self._rival(peers, state, now),
        )

    def state(self, key: RoundKey) -> StateFile | None:
        """The state file, if a coordinator of this experiment can have written it by now. Raises StoreError."""
        return believed_state(self._ctx.run, most_rounds=max(self._ctx.settings.max_rounds, key.round))[0]

    def _submitted(self, key: RoundKey) -> frozenset[str]:
        """Nobody where the folder cannot be listed, as when a stranger put a link there: the interval ends then."""
        try:
            nodes = self._submissions.of(key)
        except StoreError as error:
            self._unlistable.found(error)
            return frozenset()
        self._unlistable.gone()
        return nodes

    def _submitted_before(self, key: RoundKey) -> frozenset[str]:
        before = range(max(0, key.round - 2), key.round)
        self._submissions.forget_before(before.start)
        return frozenset[str]().union(*(self._submitted(RoundKey(round_)) for round_ in before))

    def _rival(self, peers: list[PeerFile], state: StateFile | None, now: float) -> str | None:
        """A coordinator active whose claim is the older one, which both can see.

        It must have written the clock: a mere registration that beats would else leave the swarm without one.
        """
        alive = self._liveness.live(now, role="coordinator") - {self._ctx.node_id}
        writers = [peer for peer in peers if state and peer.peer_id == state.updated_by and peer.peer_id in alive]
        return next((p.peer_id for p in writers if (p.registered_at, p.incarnation) < self._presence.claim), None)


def clock_of(state: StateFile) -> FolderClock:
    """The part of a state file by which the clock goes."""
    return FolderClock(RoundKey(state.round, state.stage), state.finished, state.held)
