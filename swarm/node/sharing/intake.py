"""Intake pipeline: lists peers' rollout files, and examines those groups of them that are drawn.

    listing ─whom to read─▶ PeerArrived ─▶ drawn? ─▶ bounded read ─▶ admitted? ─▶ regenerate, score, compare ─▶ pool
            selection.py                   algo/     reading.py      admission.py  verification.py             pool.py
                                           drawing.py

    waits for   the priority lock: one file at a time, those of peers with a clean record first (priority_lock.py)
    unblocks    the gathering, by PeerArrived: also of a peer whose file is not to be read at all

What is drawn is examined when the gathering is over; what will be drawn if all live peers publish, as soon as it is
listed, also while this node generates. Only what was listed is ever drawn, and of that no more than is needed.

Where there is no file that can be taken, and later there is, that one is read: the first may be a stranger's. What
certainly is (a link, something that its author did not sign) is no arrival of the peer's, or takes it back.

All of it goes on while the executor computes. Whatever is wrong is counted by reason and peer, and named in the log as
far as there is room (intake_counts.py); how often it happens decides who is read at all (quarantine.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum, auto

import anyio
from anyio.abc import TaskGroup

from swarm.algo.drawing import NOTHING, Drawing, Nothing, Sample
from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import LogOnce
from swarm.node.base.timeline import Timeline
from swarm.node.sharing.admission import Admission
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.intake_counts import OTHERS, Counts, Refusals
from swarm.node.sharing.pool import Pool, copies
from swarm.node.sharing.priority_lock import PriorityLock
from swarm.node.sharing.quarantine import NOT_ITS_OWN, Quarantine
from swarm.node.sharing.reading import PeersFile, PeersFiles, Reading
from swarm.node.sharing.selection import Selection, random_order
from swarm.node.sharing.trained_groups import GroupName, name_of
from swarm.node.sharing.verification import TaskSource, Verdict, verify
from swarm.types import RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import Claims
from swarm.wire.messages import MetricsRow

logger = get_logger(__name__)

NOT_THE_PEERS = NOT_ITS_OWN | {"not_a_file"}
"""Reasons for which what lies at a peer's name is none of its files."""
CLEAN, ALIVE, STRANGER, REFUSED, COSTLY = range(5)
"""Ranks, in the order in which peers' files are read; COSTLY: scoring some of the file had to be killed."""

NO_SLOT = -1
"""Asks for a file to be read, and for none of its groups."""

Source = tuple[str, RoundKey]
"""A peer, and the round and stage of one of its files."""


class News(Enum):
    """What the Intake tells of a peer and stage."""

    THERE = auto()
    """A file of the peer's is listed, or the peer is not read: nobody is to wait for it."""
    NOT_THEIRS = auto()
    """What is listed is none of the peer's files: as if nothing were there."""
    VALID = auto()
    """A group of it was verified."""


@dataclass(frozen=True)
class Wanted:
    """What a round draws of its peers' groups."""

    slots: int
    """Of each peer that take part."""
    count: int | None
    """Informative groups; None: all groups are looked at."""
    trained: Set[GroupName]
    """Those that are not drawn again."""
    ranks: Callable[[str, int], Sequence[int]]
    """Of so many slots of a name, in the order of which they are drawn."""

    def ranks_of(self, source: Source) -> Sequence[int]:
        peer, key = source
        return self.ranks(f"{peer}/{key.round}/{key.stage}", self.slots)


class Intake:
    """Lists, reads, verifies, and keeps what a node may learn from."""

    def __init__(
        self,
        ctx: NodeContext,
        assigned: AssignedQuestions,
        task_source: TaskSource,
        tell: Callable[[RoundKey, str, News], Awaitable[None]],
    ) -> None:
        """`tell`: told of every peer and stage what there is of it."""
        self._ctx = ctx
        self._task_source = task_source
        self._tell = tell
        self._files = PeersFiles(ctx.settings, ctx.run)
        self._admission = Admission(ctx.settings, assigned)
        self._pool = Pool(most_bytes=ctx.settings.pool_bytes)
        self._quarantine = Quarantine(ctx.settings.quarantine_rounds)
        self._priority_lock = PriorityLock()
        self._selections: dict[RoundKey, Selection] = {}
        self._listed: dict[RoundKey, frozenset[str]] = {}
        """The nodes that had a file when a round was listed last."""
        self._tags: dict[RoundKey, dict[str, str]] = {}
        """Of the files that may be read; "" where what is listed is no file."""
        self._readings: dict[RoundKey, dict[str, Reading]] = {}
        self._there: set[Source] = set()
        """Of which THERE was told."""
        self._killed: Counter[Source] = Counter()
        """Answers of a file whose scoring had to be killed."""
        self._live: Set[str] = frozenset()
        """As of the last look."""
        self._of_strangers: Counter[RoundKey] = Counter()
        """Bytes that were read of nodes that are neither alive nor known for good files: together about one file's."""
        self._copies: set[GroupName] = set()
        """Groups that were counted as copied."""
        self._foresee: Callable[[RoundKey], Wanted | None] = lambda _: None
        self._at_work: set[Source] = set()
        """Files that are being examined, or wait for it."""
        self._progress = anyio.Event()
        """Set when the examination of a file has ended."""
        self._oldest = RoundKey(0)
        self.activity = Timeline(ctx.clock.monotonic)
        """When files were read, verified or scored; the own publishing is counted in."""
        self._counts = Counts()
        self._refusals = Refusals()
        self._unlistable = LogOnce("rollouts.unlistable", over="rollouts.listable")

    # ── what the node asks for ──────────────────────────────────────────────────────────────────────────────────────
    async def look(self, keys: Set[RoundKey], live: Set[str], tasks: TaskGroup) -> None:
        """List these rounds, see whether what was read is still what it was, and examine what will likely be drawn."""
        for key in sorted(key for key in keys if key >= self._oldest):
            new = Selection(self._ctx.settings.max_peers, random_order(self._ctx.process.secret, key))
            selection = self._selections.setdefault(key, new)
            held = [peer for peer in self._quarantine.held(key.round) if peer not in selection.taken]
            await self._pass_over(key, held, selection)
            await self._look_at(key, live, selection)
            tags = self._tags.get(key, {})
            obstacles = [peer for peer, tag in tags.items() if not tag and not self._pool.has(key, peer)]
            self._examine([((peer, key), NO_SLOT) for peer in obstacles], tasks)
            if wanted := self._foresee(key):
                self._look_ahead(wanted, key, live, tasks)

    def foresee(self, wanted: Callable[[RoundKey], Wanted | None]) -> None:
        """What will be drawn for a round of all live peers' files for it, as far as that is known (else None)."""
        self._foresee = wanted

    async def draw(self, wanted: Wanted, sources: Sequence[Source], until: float, tasks: TaskGroup) -> Sample:
        """Examine what is drawn of these files, and no more; what is not done at `until` (monotonic) is left out."""
        drawing = self._drawing(wanted, sources)
        found = self._found(wanted.trained)
        with self._ctx.clock.move_on_after(max(0.0, until - self._ctx.clock.monotonic())):
            while wave := drawing.wanted(found):
                progress = self._progress
                self._examine(wave, tasks)
                await progress.wait()
        return drawing.sample(found)

    def listed(self, key: RoundKey) -> frozenset[str]:
        """The nodes that had a file for a round when it was listed last."""
        return self._listed.get(key, frozenset())

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds, those still waiting to be read too; a daemon runs for weeks."""
        self._oldest = key
        self._pool.forget_before(key)
        self._selections = {k: selection for k, selection in self._selections.items() if k >= key}
        self._tags = {k: tags for k, tags in self._tags.items() if k >= key}
        self._readings = {k: readings for k, readings in self._readings.items() if k >= key}
        self._there = {(peer, k) for peer, k in self._there if k >= key}
        self._killed = Counter({(peer, k): killed for (peer, k), killed in self._killed.items() if k >= key})
        self._of_strangers = Counter({k: read for k, read in self._of_strangers.items() if k >= key})
        self._copies = {name for name in self._copies if name.key >= key}
        self._listed = {k: nodes for k, nodes in self._listed.items() if k >= key}
        self._refusals.forget_before(key.round)
        self.activity.forget_before(self._ctx.clock.monotonic())

    def close_round(self, round_: int) -> Counts:
        """What was counted since the last call, for this round's row; from it follows who is quarantined."""
        taken, self._counts = self._counts, Counts()
        accepted, refused = taken.accepted_by_peer, taken.refused_named()
        offenders, freed = self._quarantine.observe(round_, accepted, refused)
        taken.quarantined = self._quarantine.held(round_ + 1)
        for peer in offenders:
            logger.warning("peer.quarantined", peer=peer, round=round_, refused=refused[peer])
        for peer in freed:
            logger.info("peer.released", peer=peer, round=round_)
        return taken

    def remember(self, row: MetricsRow) -> None:
        """Take up what this node knew of its peers before it was restarted; rows come in their order."""
        self._quarantine.observe(row.round, row.accepted_by_peer, row.refused_by_peer)

    # ── whom to read ────────────────────────────────────────────────────────────────────────────────────────────────
    async def _look_at(self, key: RoundKey, live: Set[str], selection: Selection) -> None:
        clean = self._quarantine.clean()
        self._counts.alive |= live
        self._live = live
        read = {peer: r for peer, r in self._readings.get(key, {}).items() if r.may_be_read_again}
        only = (clean | live) - selection.taken if selection.flooded else None
        try:
            tags = await self._ctx.blocking.run(self._files.tags, key, read.keys(), only)
        except StoreError as error:
            self._unlistable.found(error)
            return
        self._unlistable.gone()
        if key < self._oldest:
            return  # the clock went on while the round was listed
        self._listed[key] = frozenset(tags)
        choice = selection.choose(tags.keys() - {self._ctx.node_id}, clean, live)
        if choice.flood:
            self._refusals.flood(self._counts, key, choice.flood, self._ctx.settings.max_peers)
        to_read = self._tags.setdefault(key, {})
        to_read.update((peer, "") for peer in choice.read)
        for peer in [peer for peer in to_read if peer in tags]:
            if key < self._oldest:
                return
            await self._follow(key, peer, tags[peer], is_known=peer in clean or peer in live)
        await self._pass_over(key, choice.passed_over, selection)

    async def _follow(self, key: RoundKey, peer: str, tag: str, *, is_known: bool) -> None:
        """What is listed at a peer's name now."""
        before = self._readings.get(key, {}).get(peer)
        if before and (tag in ("", before.tag) or not before.may_be_read_again):
            return
        if before and not before.refused:
            await self._look_again(key, peer, before)
            return
        if before and not is_known:
            return
        if before:
            self._readings[key][peer] = replace(before, tag=tag)  # it is read once
            self._pool.take_out(key, peer)
        self._tags[key][peer] = tag
        if tag:
            await self._is_there(key, peer)

    async def _is_there(self, key: RoundKey, peer: str) -> None:
        if (peer, key) not in self._there:
            self._there.add((peer, key))
            await self._tell(key, peer, News.THERE)

    async def _pass_over(self, key: RoundKey, peers: Sequence[str], selection: Selection) -> None:
        """Nobody waits for those that are not read."""
        selection.taken.update(peers)
        for peer in peers:
            await self._tell(key, peer, News.THERE)

    def _rank(self, peer: str) -> int:
        if peer in self._quarantine.clean():
            return CLEAN
        if self._quarantine.record(peer)[1]:
            return REFUSED
        return ALIVE if peer in self._live else STRANGER

    # ── what is drawn ───────────────────────────────────────────────────────────────────────────────────────────────
    def _drawing(self, wanted: Wanted, sources: Sequence[Source]) -> Drawing[Source]:
        originals = list if self._ctx.settings.admit == "drawn" else self._originals  # what was drawn is nobody else's
        return Drawing(sources, wanted.ranks_of, wanted.count, originals)

    def _found(self, trained: Set[GroupName]) -> Callable[[Source, int], ScoredGroup | Nothing | None]:
        def found(source: Source, slot: int) -> ScoredGroup | Nothing | None:
            name = GroupName(source[1], source[0], slot)
            return NOTHING if name in trained or name.key < self._oldest else self._pool.found(name)

        return found

    def _look_ahead(self, wanted: Wanted, key: RoundKey, live: Set[str], tasks: TaskGroup) -> None:
        """Of what is drawn if all live peers publish examine what is there by now."""
        tags = self._tags.get(key, {})
        sources = [(peer, key) for peer in (live | tags.keys()) - {self._ctx.node_id}]
        wave = self._drawing(wanted, sources).wanted(self._found(wanted.trained))
        self._examine([(source, slot) for source, slot in wave if tags.get(source[0])], tasks)

    def _originals(self, groups: list[ScoredGroup]) -> list[ScoredGroup]:
        copied = {name_of(group): group for group in copies(groups, self._admission.is_drawn)}
        for name, group in copied.items():
            if name not in self._copies:
                self._copies.add(name)
                detail = f"group {group.slot} is another one's, word for word"
                self._refuse(name.key, name.peer, ProtocolError("copied", detail))
        return [scored for scored in groups if name_of(scored.group) not in copied]

    # ── one file ────────────────────────────────────────────────────────────────────────────────────────────────────
    def _examine(self, wave: Iterable[tuple[Source, int]], tasks: TaskGroup) -> None:
        by_file: dict[Source, set[int]] = defaultdict(set)
        for source, slot in wave:
            by_file[source].add(slot)
        for source, slots in sorted(by_file.items(), key=lambda file: (self._rank(file[0][0]), file[0])):
            if source not in self._at_work:  # else it is asked for again when that has ended
                self._at_work.add(source)
                tasks.start_soon(self._examine_file, source, slots)

    async def _examine_file(self, source: Source, slots: Set[int]) -> None:
        peer, key = source
        rank = self._rank(peer)
        async with self._priority_lock.hold(rank):
            if key >= self._oldest:
                with self.activity.running():
                    await self._look_into(key, peer, slots, rank)
        self._at_work.discard(source)
        self._progress.set()
        self._progress = anyio.Event()

    async def _look_into(self, key: RoundKey, peer: str, slots: Set[int], rank: int) -> None:
        try:
            if not self._pool.has(key, peer):
                await self._take(key, peer, rank)
            if groups := self._pool.unverified(key, peer, slots):
                await self._verify(key, peer, groups, rank)
        except ProtocolError as error:
            self._pool.empty(key, peer)
            self._refuse(key, peer, error)
        except StoreError as error:  # nothing that is the peer's fault; nobody waits for it in this round
            self._pool.empty(key, peer)
            self._refuse(key, peer, ProtocolError("unreadable", str(error)))

    async def _take(self, key: RoundKey, peer: str, rank: int) -> None:
        """Put the groups of a file into the pool that may come in."""
        is_stranger = rank != CLEAN and peer not in self._live
        if peer not in self._tags.get(key, {}):
            return self._pool.empty(key, peer)
        if is_stranger and self._of_strangers[key] >= self._ctx.settings.max_file_bytes:
            self._counts.refused_by_peer[OTHERS]["flood"] += 1
            return self._pool.empty(key, peer)
        file = await self._read(key, peer, self._tags[key][peer])
        if is_stranger:
            self._of_strangers[key] += self._readings[key][peer].size
        if file is None:
            self._pool.empty(key, peer)
            if self._readings[key][peer].refused in NOT_THE_PEERS:
                self._there.discard((peer, key))
                await self._tell(key, peer, News.NOT_THEIRS)
            return None
        self._admission.check_size(file.groups)
        self._counts.latencies.append(self._ctx.clock.wall() - file.timestamp)
        logger.debug("peer.arrived", peer=peer, round=key.round, groups=len(file.groups), bytes=file.size)
        self._put(key, peer, file)
        return await self._is_there(key, peer)

    def _put(self, key: RoundKey, peer: str, file: PeersFile) -> None:
        admitted: list[tuple[RolloutGroup, Claims]] = []
        refusals = self._admission.refusals(peer, key, file.groups)
        for group, claims, refusal in zip(file.groups, file.claims, refusals, strict=True):
            if refusal:
                self._refuse(key, peer, refusal)
            else:
                admitted.append((group, claims))
        for full_key, full_peer in self._pool.put(key, peer, admitted):
            most = self._ctx.settings.pool_bytes
            detail = f"the groups of all peers take more than {most} bytes (SWARM_POOL_BYTES)"
            self._refuse(full_key, full_peer, ProtocolError("pool_full", detail))

    async def _read(self, key: RoundKey, peer: str, tag: str) -> PeersFile | None:
        """None: it is gone, or cannot be taken, which is counted the first time."""
        fetched = await self._ctx.blocking.run(self._files.fetch, key, peer, tag)
        before = self._readings.setdefault(key, {}).get(peer)
        self._readings[key][peer] = replace(fetched.reading, again=before.again + 1 if before else 0)
        if fetched.file is None:
            return None
        self._counts.bytes_fetched += fetched.reading.size
        if not isinstance(fetched.file, ProtocolError):
            return fetched.file
        if before is None:
            self._refuse(key, peer, fetched.file)
        return None

    async def _verify(self, key: RoundKey, peer: str, groups: Sequence[tuple[RolloutGroup, Claims]], rank: int) -> None:
        """Raises ProtocolError where a file abuses the scorer: none at all of its groups may come in."""
        names = [name_of(group) for group, _ in groups]
        accepted, done = 0, 0
        verdicts_of = verify(
            self._task_source,
            [group for group, _ in groups],
            [claims for _, claims in groups],
            trusting=rank == CLEAN,
            killed=self._killed[peer, key],
        )
        async for verdicts in verdicts_of:
            for name, verdict in zip(names[done:], verdicts, strict=False):
                scored = self._counted(key, peer, verdict)
                self._pool.settle(name, scored)
                accepted += scored is not None
                self._killed[peer, key] += verdict.killed
            done += len(verdicts)
            rank = COSTLY if self._killed[peer, key] else rank
            await self._priority_lock.let_others_first(rank)
        self._counts.accepted_by_peer[peer] += accepted
        if accepted:
            await self._tell(key, peer, News.VALID)

    def _counted(self, key: RoundKey, peer: str, verdict: Verdict) -> ScoredGroup | None:
        self._counts.killed += verdict.killed
        self._counts.errors += verdict.errors
        if verdict.false_claims:
            self._counts.false_claims[peer] += verdict.false_claims
        if verdict.refusal:
            self._refuse(key, peer, verdict.refusal)
        return verdict.scored

    async def _look_again(self, key: RoundKey, peer: str, before: Reading) -> None:
        """A published file never changes: one that does told different readers different things."""
        now = await self._ctx.blocking.run(self._files.read_again, key, peer, before)
        if self._readings.get(key, {}).get(peer) != before:
            return
        if now is not None:
            self._readings[key][peer] = now
        else:
            del self._readings[key][peer]  # said once; what was read first stays
            where = self._files.describe(key, peer)
            self._refuse(key, peer, ProtocolError("equivocation", f"{where} has changed since it was read"))

    def _refuse(self, key: RoundKey, peer: str, error: ProtocolError) -> None:
        self._refusals.refuse(self._counts, key, peer, error)
