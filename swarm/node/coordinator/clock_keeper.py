"""A coordinator while it is active: looks at the folder, and carries out what CoordinatorMachine decides.

    rewards/, peers/ ──wake-up, or every second──▶ look ──▶ CoordinatorMachine ──▶ state/current_state.json ──▶ workers
                                                                    └ a rival with the older claim: step down

Where each request is paid for (`Settings.sparing`) looks come in a Rhythm, soon after news and ever later without any;
each lists the rewards of the round in hand. Peers, other rounds and the state file that this node wrote itself are
looked at once per heartbeat interval, peers at every look until the first round is open.

A state that cannot be written is not waited for: the next look finds that the folder does not say what was decided, and
the machine has it written again. So a full or read-only folder stops the clock, and nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set
from contextlib import suppress
from functools import partial

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.attendance import Submissions, in_words, is_expected
from swarm.node.base.clock_belief import written_state
from swarm.node.base.context import NodeContext
from swarm.node.base.looking import LogOnce, Rhythm, until_readable
from swarm.node.base.presence import PROOF_BEATS, Heartbeats, PeersSeen, Presence, names_and_keys
from swarm.node.coordinator.coordinator_machine import (
    MOST_EMPTY,
    RESTORED,
    CoordinatorLook,
    CoordinatorMachine,
    FolderClock,
    StepDown,
    WriteState,
    majority_front,
)
from swarm.node.coordinator.resume import resume_point
from swarm.records.finished import IN_WORDS, why_it_stands
from swarm.records.listing import good_for
from swarm.records.liveness import STARTING, STOPPED, Liveness
from swarm.store.wake_ups import wake_ups
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile, StateFile

logger = get_logger(__name__)

MOST_NAMED = 64
"""Nodes that an event names."""
MOST_CLAIMS = 2
"""Rounds ahead of the clock, which live workers say that they are in, that are looked at."""
RESUMED = "resumed"
"""Reason of a state that is held until workers are there."""
DOUBTS_APART = 4.0
"""Liveness timeouts between two times that a coordinator waits for another to show that it lives."""


class Observer:
    """Looks, again and again: who is alive, who has submitted, what the state file says. Blocking."""

    def __init__(self, ctx: NodeContext, presence: Presence, liveness: Liveness) -> None:
        self._ctx = ctx
        self._presence = presence
        self._peers = PeersSeen(ctx, liveness)
        self._submissions = Submissions(ctx.run, ctx.clock.monotonic, ctx.settings.expected_names)
        self._hearts = Heartbeats()
        self._waited_for: frozenset[str] = frozenset()
        """Who was alive at the last look, and had not submitted."""
        self.in_doubt = False
        """Nobody can tell whose the clock is."""
        self._doubted_at = -math.inf
        self._others_seen = frozenset[str]()
        """Other coordinators that have been seen to live, and are registered still."""
        self._doubtful = LogOnce("state.doubted", over="state.undoubted")
        self._unlistable = LogOnce("folder.unlistable", over="folder.listable")
        self._max_age = ctx.settings.cadence.heartbeat_interval if ctx.settings.sparing else 0.0
        """Seconds for which what was seen of peers is good enough."""
        self.good_for = 0.0
        """Seconds for which another look would find the listings of the last one."""
        self._own_state: tuple[float, StateFile] | None = None
        """What stood in the state file, written by this node, and when that was seen."""

    def look(self, key: RoundKey, *, opened: bool = True) -> CoordinatorLook | None:
        """Returns what the folder shows of a round; None if nobody can tell who is there, or where the clock is.

        Args:
            opened: False: workers are waited for.
        """
        clock = self._ctx.clock
        try:
            max_age = self._max_age if opened else 0.0
            moving = self._peers.liveness.moving(clock.monotonic())
            known, last = self._submissions.proven, self._waited_for
            seen = self._peers.read(moving, known, max_age=max_age, at_once=last)
            self._peers.note(seen)
            peers = seen.peers
            self.good_for = good_for(len(peers))
            self._others_seen = (self._others_seen | self._others()) & {peer.peer_id for peer in peers}
            state = self._state_lately(key)
        except StoreError as error:
            self._unlistable.found(error)
            return None
        if self.in_doubt:
            return None
        now, live, coming = clock.monotonic(), self._peers.workers(), self._peers.workers(STARTING)
        before, submitted = self._before(key), self._submitted(key, 0.0)
        self._ctx.run.trust.keep(submitted)
        self._waited_for = live - submitted
        self._submitted(RoundKey(key.round + 1))  # who went on alone has earned a say by that
        self._look_at_those_ahead(peers, live, key)
        return CoordinatorLook(
            now=now,
            live=live,
            submitted=submitted,
            clock=clock_of(state) if state else None,
            front=majority_front(key, self._voters(live), self._submitted),
            called=names_and_keys(self._ctx, live),
            submitted_before=before,
            coming=coming,
            working=self._working(peers, live, key),
            rival=self._rival(peers, state),
            without_a_say=self._without_a_say(submitted | before),
        )

    def _look_at_those_ahead(self, peers: list[PeerFile], live: frozenset[str], key: RoundKey) -> None:
        """Looks at the last rounds of those who went on alone for long, so that they earn their say: the rounds before
        may be cleaned up."""
        unproven = live - self._submissions.proven
        said = Counter(peer.round for peer in peers if peer.peer_id in unproven and peer.round > key.round + 1)
        for round_, _ in said.most_common(MOST_CLAIMS):
            for done in (round_ - 1, round_):
                self._submitted(RoundKey(done))
                self._submissions.forget(RoundKey(done))

    def _working(self, peers: list[PeerFile], live: frozenset[str], key: RoundKey) -> frozenset[str]:
        """Live workers that have come to a round, or the one before, and have done one, as far as any is done."""
        there = {peer.peer_id for peer in peers if peer.round >= max(0, key.round - 1)} & live
        return frozenset(there & self._submissions.proven if key.round else there)

    def _voters(self, live: frozenset[str]) -> frozenset[str]:
        """Returns who says where the workers have come to: the expected ones, or those that have published a round."""
        if self._ctx.settings.expected_names:
            return live - self._without_a_say(live)
        return live & self._submissions.proven

    def _without_a_say(self, nodes: frozenset[str]) -> frozenset[str]:
        """Others than the expected ones, where workers are expected by name or key."""
        names = self._ctx.settings.expected_names
        return frozenset(node for node in nodes if not is_expected(self._ctx.run, node, names))

    def _state_lately(self, key: RoundKey) -> StateFile | None:
        """Returns the state file as `state` does, for a moment from memory if this node is known to have written it."""
        now = self._ctx.clock.monotonic()
        if self._own_state and now - self._own_state[0] < self._max_age:
            return self._own_state[1]
        state = self.state(key)
        self._own_state = (now, state) if state and state.updated_by == self._ctx.node_id else None
        return state

    def forget_state(self) -> None:
        """The state file is about to be another one."""
        self._own_state = None

    def state(self, key: RoundKey) -> StateFile | None:
        """Returns the state file, if a coordinator of this experiment can have written it by now. Raises StoreError.

        One that is further than this coordinator's clock is another's, which lives, or did and says that it has ended,
        says of itself that it has come there, and has rewards in the rounds before to show for it; or a stranger's, and
        written over. Where another coordinator may yet show that it lives, that is waited for a little: `in_doubt`.
        """
        self.in_doubt = False
        written, _ = written_state(self._ctx.run, most_rounds=max(self._ctx.settings.max_rounds, key.round))
        if written is None:
            return None
        state, writer = written
        if RoundKey(state.round, state.stage) > key and not self._keeps_it(writer, state):
            self._doubtful.found(f"round {state.round} by {writer.peer_id}, expected {key.round}")
            self.in_doubt = writer.peer_id != self._ctx.node_id and writer.status != STOPPED and self._may_wait()
            return None
        self._doubtful.gone()
        return state

    def _may_wait(self) -> bool:
        """Tells whether a doubt may still wait: it may for PROOF_BEATS beats, and then not again soon."""
        now, settings = self._ctx.clock.monotonic(), self._ctx.settings
        if now - self._doubted_at > DOUBTS_APART * settings.cadence.liveness_timeout:
            self._doubted_at = now
        return now - self._doubted_at < PROOF_BEATS * settings.cadence.heartbeat_interval

    def _keeps_it(self, writer: PeerFile, state: StateFile) -> bool:
        lives = writer.peer_id in self._others()
        has_ended = writer.status == STOPPED and writer.peer_id in self._others_seen
        vouches = (lives or has_ended) and writer.round >= state.round
        return vouches and self._submissions.lie_before(state.round)

    def _others(self) -> frozenset[str]:
        """Coordinators that live, besides this one."""
        return self._peers.coordinators() - {self._ctx.node_id}

    def _submitted(self, key: RoundKey, max_age: float | None = None) -> frozenset[str]:
        """Returns who submitted; nobody where the folder cannot be listed, as when a stranger put a link there: the
        interval ends then."""
        try:
            usual = self._ctx.settings.cadence.heartbeat_interval
            nodes = self._submissions.of(key, usual if max_age is None else max_age)
        except StoreError as error:
            self._unlistable.found(error)
            return frozenset()
        self._unlistable.gone()
        return nodes

    def _before(self, key: RoundKey) -> frozenset[str]:
        before = range(max(0, key.round - MOST_EMPTY), key.round)
        self._submissions.forget_before(before.start)
        max_age = self._ctx.settings.cadence.liveness_timeout / (1 if self._ctx.settings.sparing else 4)
        return frozenset[str]().union(*(self._submitted(RoundKey(round_), max_age) for round_ in before))

    def _rival(self, peers: list[PeerFile], state: StateFile | None) -> str | None:
        """Returns a coordinator active whose claim is the older one, which both can see.

        It must have written the clock, and have been seen to beat while this one is active: a mere registration, or a
        file that lies there, would else leave the swarm without one.
        """
        alive = self._others()
        beating = {peer.peer_id: peer for peer in peers if peer.peer_id in alive and self._hearts.observe(peer)}
        writer = beating.get(state.updated_by) if state else None
        return writer.peer_id if writer and (writer.registered_at, writer.incarnation) < self._presence.claim else None


class ClockKeeper:
    """Owns the round clock from where the folder says it is."""

    def __init__(self, ctx: NodeContext, presence: Presence, liveness: Liveness) -> None:
        self._ctx = ctx
        self._presence = presence
        self._created_at = ctx.clock.wall()
        self._rhythm = Rhythm(ctx.clock, ctx.settings.cadence.heartbeat_interval)
        self._opened_at: float | None = None
        """When the round in hand was opened; None: the first reward has come."""
        self._first_after = 0.0
        """Seconds after which it came in the last round that had one."""
        self._seen: object = None
        """What the last look showed, as far as it is news."""
        self._awaiting: tuple[frozenset[str], frozenset[str]] | None = None
        """Who was there, and who was loading, when that was told of last."""
        self._unwritten: WriteState | None = None
        """What was decided and is to be told of once the folder says it."""
        self._observer = Observer(ctx, presence, liveness)
        self._unwritable = LogOnce("state.unwritable", over="state.writable")
        self._machine = CoordinatorMachine(ctx.settings)
        self._standing = Standing(presence, ctx.settings.round_interval)

    async def keep(self) -> bool:
        """Keep the clock.

        Returns:
            True once all rounds are done and the folder says so; False to leave the clock to another coordinator.
        """
        await self._resume()
        interval = min(self._ctx.settings.cadence.reconcile_interval, self._ctx.settings.cadence.heartbeat_interval)
        done: bool | None = None
        ctx, hints = self._ctx, self._ctx.settings.cadence.watch == "auto"
        sleep = self._rhythm.sleep if ctx.settings.sparing else ctx.clock.sleep
        async with wake_ups(
            ctx.run.store, [keys.REWARDS], interval, sleep, hints=hints, among_them=self._awaited, merged=True
        ) as wakes:
            while done is None:
                await wakes.receive()
                done = await self._decide()
                if done is None and self._observer.good_for:
                    await ctx.clock.sleep(min(self._observer.good_for, interval))
        return done

    def _awaited(self) -> list[str]:
        """Returns what is watched most: the rewards of the round, and until one is open also who comes."""
        return [keys.rewards(self._machine.round_in_hand), *([keys.PEERS] if self._machine.key is None else [])]

    async def _resume(self) -> None:
        most, names = self._ctx.settings.max_rounds, self._ctx.settings.expected_names
        key, state, problem = await until_readable(self._ctx, resume_point, self._ctx.run, most, names)
        if problem:
            logger.warning("state.unreadable", error=problem, resumed_from="rounds that workers did", round=key.round)
        if state:
            self._created_at = state.created_at
        logger.info(
            "coordinator.ready",
            experiment=self._ctx.run.experiment,
            round=key.round,
            stage=key.stage,
            max_rounds=self._ctx.settings.max_rounds,
            expected_workers=self._ctx.settings.expected_workers,
        )
        if write := self._machine.resume(key):
            await self._write(write)
        elif state or problem or key > RoundKey(0):
            await self._write(WriteState(key, finished=False, reason=RESUMED))

    async def _decide(self) -> bool | None:
        """Look and carry out until there is nothing more to do for now; None, or what `keep` returns."""
        opened = self._machine.key is not None
        observe = partial(self._observer.look, opened=opened)
        while look := await self._ctx.blocking.run(observe, self._machine.round_in_hand):
            self._notice(look)
            self._tell_of_awaited(look)
            decision = self._machine.handle(look)
            self._standing.look(self._machine.key, look, finished=self._machine.finished)
            match decision:
                case None:
                    return True if self._machine.finished else None
                case StepDown(rival):
                    logger.warning("coordinator.steps_down", rival=rival, round=self._machine.round_in_hand.round)
                    return False
                case WriteState() as write:
                    if write.reason == "opened" and not self._machine.expected_are_there(look):
                        self._tell_of_absent(look, write.missing)
                    if not await self._write(write) or write.reason == RESTORED:
                        return None  # whatever it is that keeps the file from saying so, it has until the next wake-up
        return None

    def _notice(self, look: CoordinatorLook) -> None:
        """Takes note of what a look shows; anything new makes the next look come soon."""
        if look.submitted and self._opened_at is not None:
            self._first_after, self._opened_at = look.now - self._opened_at, None
        seen = (self._machine.round_in_hand, look.submitted, look.live, look.coming, look.clock)
        if seen != self._seen:
            self._seen = seen
            self._rhythm.keep_pace()

    def _tell_of_awaited(self, look: CoordinatorLook) -> None:
        """Logs who is there before the first round, and who is expected, or what the beginning waits for otherwise."""
        if self._machine.key is not None or (seen := (look.called, look.coming)) == self._awaiting:
            return
        settings, self._awaiting = self._ctx.settings, seen
        told: dict[str, object] = {**in_words(settings)}
        if settings.expected_workers is not None:
            missing = _named(settings.expected_names - look.called)
            told = {"expected": settings.expected_workers, "missing": missing}
        logger.info("workers.awaited", present=_named(look.live), loading=_named(look.coming), **told)

    def _tell_of_absent(self, look: CoordinatorLook, missing: frozenset[str]) -> None:
        """The patience is over: who was expected and is not there; by number those that were there before a restart."""
        names, expected = self._ctx.settings.expected_names, self._ctx.settings.expected_count
        came = len(names) - len(missing) if names else len(look.live)
        logger.warning(
            "workers.absent",
            came=f"{came} of {expected}",
            present=_named(look.live),
            missing=_named(missing),
            waited=f"{self._ctx.settings.round_interval:g} s",
            consequence="the rounds go on with those who came; who comes later takes part from the round that is open",
        )

    # ── write ───────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _write(self, write: WriteState) -> bool:
        """Try once; False if the folder does not say it now. This node's registration names the round before."""
        moves = write.reason not in (RESTORED, RESUMED)
        if (self._presence.round, self._presence.stage) != write.key:
            self._presence.round, self._presence.stage = write.key
            with suppress(StoreError):  # the next heartbeat says it
                await self._presence.beat()
        now = self._ctx.clock.wall()
        state = StateFile(
            round=write.key.round,
            stage=write.key.stage,
            created_at=self._created_at,
            updated_at=now,
            updated_by=self._ctx.node_id,
            experiment_name=self._ctx.run.experiment,
            max_rounds=max(self._ctx.settings.max_rounds, write.key.round),  # fewer may be asked for than were done
            finished=write.finished,
            held=write.reason == RESUMED,
            round_opened_at=now,
            round_interval=self._ctx.settings.round_interval,
        )
        self._observer.forget_state()
        try:
            written = await self._ctx.blocking.run(self._publish_forwards, state)
        except StoreError as error:
            self._unwritable.found(error)
            if moves:
                self._unwritten = write
            return False
        self._unwritable.gone()
        if written:
            if moves:
                self._opened_at = self._ctx.clock.monotonic()
                self._rhythm.expect(self._first_after)
            _log(self._unwritten if self._unwritten and write.reason == RESTORED else write)
            self._unwritten = None
        return written

    def _publish_forwards(self, state: StateFile) -> bool:
        """Publishes a state, but not over a later round: this process may have been paused since it looked, and another
        have taken over."""
        there = self._observer.state(self._machine.round_in_hand)
        if self._observer.in_doubt:
            return False
        if there is not None and clock_of(there).key > clock_of(state).key:
            return False
        self._ctx.run.put_sealed(keys.STATE, encode(state))
        return True


def _log(write: WriteState) -> None:
    if write.reason == RESTORED:
        logger.warning("state.restored", round=write.key.round, stage=write.key.stage)
        return
    logger.info(
        "round.held" if write.reason == RESUMED else "round.last_closed" if write.finished else "round.opened",
        round=write.key.round,
        stage=write.key.stage,
        reason=write.reason,
        missing=_named(write.missing),
        **({"not_awaited": _named(write.not_awaited)} if write.not_awaited else {}),
    )


def _named(nodes: Set[str]) -> list[str]:
    """Returns sorted names for the log, cut to MOST_NAMED: a flood of names must not fill it."""
    names = sorted(nodes)
    return names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], f"and {len(names) - MOST_NAMED} more"]


def clock_of(state: StateFile) -> FolderClock:
    """Returns the part of a state file by which the clock goes."""
    return FolderClock(RoundKey(state.round, state.stage), state.finished, state.held)


class Standing:
    """Says once why the clock stands, and that it goes on; the coordinator's registration says it too."""

    def __init__(self, presence: Presence, round_interval: float) -> None:
        self._presence = presence
        self._interval = round_interval
        self._key: RoundKey | None = None
        self._since = 0.0

    def look(self, key: RoundKey | None, look: CoordinatorLook, *, finished: bool) -> None:
        """Take note of a look.

        Args:
            key: the open round; None: workers are awaited before the first.
        """
        if key != self._key:
            self._key, self._since = key, look.now
        phase = ""
        if key is not None and not finished:
            phase = why_it_stands(
                live=look.live,
                coming=look.coming,
                overdue=look.now - self._since >= self._interval,
                somebody_counts=bool(look.counted_lately if look.live else look.counted),
                first_rounds=key.round < MOST_EMPTY,
            )
        if phase == self._presence.phase:
            return
        self._presence.phase = phase
        round_ = key.round if key else None
        if phase:
            logger.warning("clock.stands", round=round_, why=IN_WORDS[phase], workers=_named(look.live or look.coming))
        else:
            logger.info("clock.goes_on", round=round_)
