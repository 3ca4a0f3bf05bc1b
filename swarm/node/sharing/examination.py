"""Examines one peer's file: reads it, once, and verifies those of its groups that are drawn.

    what is listed ─follow─▶ to be read ─▶ bounded read ─▶ admitted? ─▶ pool ─▶ regenerate, score, compare ─▶ pool
                                │           reading.py     admission.py          verification.py
                                └──── FileNews: there is a file, it is none of the peer's, a group of it is valid

One file costs no more than its size and MOST_KILLED answers allow; whatever is wrong with it is counted by reason and
peer, and named in the log as far as there is room (selection.py).

EarlyGroups are verified before the file that names them is there, while their author generates others.

    a look: what will likely be drawn ─▶ its file, by name ─▶ bounded read ─▶ admitted? ─▶ regenerate, score ─▶ kept
    the last file is read ─▶ what is kept of the very groups that it names is not verified again; the rest of it goes

It spares time and decides nothing: what a node learns from is what it would have found without. So whatever is wrong
with a group is left for the reading of the last file to find and to count. Only peers who published so before are
looked at, those alone that have a clean record, and of each no more bytes than one file may have; who costs the scorer
more than it gives is not looked at again until its next file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum, auto

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.sharing.admission import Admission, Mixtures
from swarm.node.sharing.contexts import CONTEXT_GONE
from swarm.node.sharing.pool import GroupName, Pool, name_of
from swarm.node.sharing.reading import MISSING, EarlyGroup, Listed, PeersFile, PeersFiles, Reading
from swarm.node.sharing.selection import NOT_ITS_OWN, OTHERS, IntakeCounts, PriorityLock, Refusals
from swarm.node.sharing.verification import Cost, GroupVerdict, TaskSource, verify
from swarm.types import RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import Claims

logger = get_logger(__name__)

NOT_THE_PEERS = NOT_ITS_OWN | {"not_a_file", MISSING}
"""Reasons for which what lies at a peer's name is none of its files."""
MOST_TIMES_MISSED = 8
"""Times that contexts of a file are looked for before its groups are refused that have none: all of them have had the
same time to come."""
CLEAN, ALIVE, STRANGER, REFUSED, COSTLY = range(5)
"""Ranks, in the order in which peers' files are read; COSTLY: scoring some of the file had to be killed."""


class FileNews(Enum):
    """Says what there is of one peer's file for a stage."""

    THERE = auto()
    """A file of the peer's is listed, or the peer is not read: nobody is to wait for it."""
    NOT_THEIRS = auto()
    """What is listed is none of the peer's files: as if nothing were there."""
    VALID = auto()
    """A group of it was verified."""


class Examination:
    """Reads and verifies all peers' files of the last rounds."""

    def __init__(
        self,
        ctx: NodeContext,
        admission: Admission,
        mixtures: Mixtures,
        task_source: TaskSource,
        tell: Callable[[RoundKey, Set[str], FileNews], None],
    ) -> None:
        """`tell`: told of peers and a stage what there is of them."""
        self._ctx = ctx
        self._task_source = task_source
        self._tell = tell
        self._files = PeersFiles(ctx.settings, ctx.run)
        self._admission = admission
        self._mixtures = mixtures
        self.early = EarlyGroups(ctx, self._files, admission, mixtures, task_source)
        self.pool = Pool(most_bytes=ctx.settings.limits.pool_bytes)
        self.line = PriorityLock()
        """Whose turn it is: one file at a time."""
        self._tags: dict[RoundKey, dict[str, str]] = {}
        """Tags of the files that may be read; "" where what is listed is no file."""
        self._readings: dict[RoundKey, dict[str, Reading]] = {}
        self._there: dict[RoundKey, set[str]] = {}
        """Peers of whom THERE was told."""
        self._came: dict[RoundKey, dict[str, float]] = {}
        """When a listing first showed a peer's file, Unix seconds; of those alone that came while this node looked."""
        self._cost: defaultdict[tuple[str, RoundKey], Cost] = defaultdict(Cost)
        """Cost of a file."""
        self._of_strangers: Counter[RoundKey] = Counter()
        """Bytes that were read of nodes that are neither alive nor known for good files: together about one file's."""
        self._context_missed: Counter[tuple[str, RoundKey]] = Counter()
        """How often contexts of a file were looked for in vain."""
        self._without_context: set[GroupName] = set()
        """Groups that are to be looked at again."""
        self.counts = IntakeCounts()
        self._refusals = Refusals()

    # ── what is listed ──────────────────────────────────────────────────────────────────────────────────────────────
    async def list(self, key: RoundKey, only: Set[str] | None) -> Listed:
        """Lists a stage's files as PeersFiles.tags does, and spares those that were read and may not be read again."""
        read = {peer for peer, reading in self._readings.get(key, {}).items() if reading.may_be_read_again}
        return await self._ctx.blocking.run(self._files.tags, key, read, only)

    def may_read(self, key: RoundKey, peers: Sequence[str]) -> None:
        """The files of these peers are read where they are drawn."""
        self._tags.setdefault(key, {}).update(dict.fromkeys(peers, ""))

    def to_read(self, key: RoundKey) -> Mapping[str, str]:
        """Returns peers whose files may be read, each with its tag."""
        return self._tags.get(key, {})

    def came(self, key: RoundKey, peers: Set[str]) -> None:
        """Files of these peers are listed now, and were not at the look before."""
        self._came.setdefault(key, {}).update(dict.fromkeys(peers, self._ctx.clock.wall()))

    async def follow(self, key: RoundKey, tags: Mapping[str, str], known: Set[str]) -> None:
        """Takes note of what is listed at the names of peers whose files may be read now.

        Args:
            known: those that are alive, or have a clean record.
        """
        there = set[str]()
        for peer in self.to_read(key).keys() & tags.keys():
            if await self._is_to_read(key, peer, tags[peer], is_known=peer in known):
                self._tags[key][peer] = tags[peer]
                there |= {peer} if tags[peer] else set()
            if key not in self._tags:
                return  # the clock went on meanwhile
        self._are_there(key, there)

    async def _is_to_read(self, key: RoundKey, peer: str, tag: str, *, is_known: bool) -> bool:
        """Tells whether it was not read yet, or what was read is none of the peer's files, and something else lies
        there."""
        before = self._readings.get(key, {}).get(peer)
        if before is None:
            return True
        if tag in ("", before.tag) or not before.may_be_read_again:
            return False
        if not before.refused:
            await self._look_again(key, peer, before)
        elif is_known:
            self._readings[key][peer] = replace(before, tag=tag)  # it is read once
            self.pool.take_out(key, peer)
            return True
        return False

    def _are_there(self, key: RoundKey, peers: Set[str]) -> None:
        if new := peers - self._there.setdefault(key, set()):
            self._there[key] |= new
            self._tell(key, new, FileNews.THERE)

    # ── one file ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def look_into(self, key: RoundKey, peer: str, slots: Set[int], rank: int, *, is_stranger: bool) -> None:
        """Verify these slots of a file, which is read first if it was not yet; within a turn of the line."""
        try:
            if not self.pool.has(key, peer):
                await self._take(key, peer, is_stranger=is_stranger)
            if groups := self.pool.unverified(key, peer, slots):
                await self._verify(key, peer, groups, rank)
        except ProtocolError as error:
            self.pool.empty(key, peer)
            self.refuse(key, peer, error)
        except StoreError as error:  # nothing that is the peer's fault; nobody waits for it in this round
            self.pool.empty(key, peer)
            self.refuse(key, peer, ProtocolError("unreadable", str(error)))

    async def _take(self, key: RoundKey, peer: str, *, is_stranger: bool) -> None:
        """Put the groups of a file into the pool that may come in."""
        if peer not in self._tags.get(key, {}):
            return self.pool.empty(key, peer)
        if is_stranger and self._of_strangers[key] >= self._ctx.settings.limits.max_file_bytes:
            self.counts.refused_by_peer[OTHERS]["flood"] += 1
            return self.pool.empty(key, peer)
        file = await self._read(key, peer, self._tags[key][peer])
        if is_stranger:
            self._of_strangers[key] += self._readings[key][peer].size
        if file is None:
            self.pool.empty(key, peer)
            if self._readings[key][peer].refused in NOT_THE_PEERS:
                self._there.get(key, set()).discard(peer)
                self._tell(key, {peer}, FileNews.NOT_THEIRS)
            return None
        self._admission.check_size(file.groups)
        if (came := self._came.get(key, {}).get(peer)) is not None:
            self.counts.latencies.append(came - file.timestamp)
        logger.debug("peer.arrived", peer=peer, round=key.round, groups=len(file.groups), bytes=file.size)
        self._put(key, peer, file)
        self._settle_early(key, peer, file)
        if not is_stranger:
            self.early.learns(peer, one_by_one=bool(file.earlier))
        return self._are_there(key, {peer})

    def _settle_early(self, key: RoundKey, peer: str, file: PeersFile) -> None:
        """Settles those groups of a file that were verified before it was there, so that none is verified twice."""
        early = self.early.take(key, peer, file.earlier)
        for group, _ in self.pool.unverified(key, peer, early.keys()):
            self.pool.settle(name_of(group), self._counted(key, peer, early[group.slot]))
            self.counts.accepted_by_peer[peer] += 1
        if early:
            self._tell(key, {peer}, FileNews.VALID)

    def _put(self, key: RoundKey, peer: str, file: PeersFile) -> None:
        admitted: list[tuple[RolloutGroup, Claims]] = []
        refusals = self._admission.refusals(peer, key, file.groups, self._mixtures.of_file(peer, file.mixture))
        for group, claims, refusal in zip(file.groups, file.claims, refusals, strict=True):
            if refusal:
                self.refuse(key, peer, refusal)
            else:
                admitted.append((group, claims))
        for full_key, full_peer in self.pool.put(key, peer, admitted):
            most = self._ctx.settings.limits.pool_bytes
            detail = f"the groups of all peers take more than {most} bytes (SWARM_POOL_BYTES)"
            self.refuse(full_key, full_peer, ProtocolError("pool_full", detail))

    async def _read(self, key: RoundKey, peer: str, tag: str) -> PeersFile | None:
        """Reads a peer's file; None: it is gone, or cannot be taken, which is counted the first time."""
        fetched = await self._ctx.blocking.run(self._files.fetch, key, peer, tag)
        before = self._readings.setdefault(key, {}).get(peer)
        self._readings[key][peer] = replace(fetched.reading, again=before.again + 1 if before else 0)
        if fetched.file is None:
            return None
        self.counts.bytes_fetched += fetched.reading.size
        if not isinstance(fetched.file, ProtocolError):
            return fetched.file
        if before is None:
            self.refuse(key, peer, fetched.file)
        return None

    async def _verify(self, key: RoundKey, peer: str, groups: Sequence[tuple[RolloutGroup, Claims]], rank: int) -> None:
        """Raises ProtocolError where a file abuses the scorer: none at all of its groups may come in."""
        names = [name_of(group) for group, _ in groups]
        accepted, done = 0, 0
        looked_again = self._context_missed[peer, key]
        verdicts_of = verify(
            self._task_source,
            [group for group, _ in groups],
            [claims for _, claims in groups],
            trusting=rank == CLEAN,
            cost=self._cost[peer, key],
        )
        async for verdicts in verdicts_of:
            for name, verdict in zip(names[done:], verdicts, strict=False):
                if self._is_left_for_later(name, verdict, looked_again):
                    continue
                scored = self._counted(key, peer, verdict)
                self.pool.settle(name, scored)
                accepted += scored is not None
                self._cost[peer, key] = self._cost[peer, key].plus(verdict.cost)
            done += len(verdicts)
            rank = COSTLY if self._cost[peer, key].excess else rank
            await self.line.let_others_first(rank)
        self.counts.accepted_by_peer[peer] += accepted
        if accepted:
            self._tell(key, {peer}, FileNews.VALID)

    def _is_left_for_later(self, name: GroupName, verdict: GroupVerdict, before: int) -> bool:
        """The context of a group is not there, and may come yet; `before`: looks at its file that ended so."""
        self._without_context.discard(name)
        if verdict.refusal is None or verdict.refusal.reason != CONTEXT_GONE or before + 1 >= MOST_TIMES_MISSED:
            return False
        self._context_missed[name.peer, name.key] = before + 1
        self._without_context.add(name)
        return True

    def waits_for_context(self, key: RoundKey, peer: str, slots: Set[int]) -> bool:
        """Tells whether the context of one of these groups was looked for, and is to be looked for again."""
        return any(GroupName(key, peer, slot) in self._without_context for slot in slots)

    def _counted(self, key: RoundKey, peer: str, verdict: GroupVerdict) -> ScoredGroup | None:
        self.counts.killed += verdict.killed
        self.counts.errors += verdict.errors
        if verdict.false_claims:
            self.counts.false_claims[peer] += verdict.false_claims
        if verdict.refusal:
            self.refuse(key, peer, verdict.refusal)
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
            self.refuse(key, peer, ProtocolError("equivocation", f"{where} has changed since it was read"))

    def refuse(self, key: RoundKey, peer: str, error: ProtocolError) -> None:
        """Count a refusal, and log it as far as there is room."""
        self._refusals.refuse(self.counts, key, peer, error)

    def flood(self, key: RoundKey, names: int) -> None:
        """Counts so many names of a stage that are not read."""
        self._refusals.flood(self.counts, key, names, self._ctx.settings.limits.max_peers)

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds."""
        self.pool.forget_before(key)
        self.early.forget_before(key)
        self._tags = {k: tags for k, tags in self._tags.items() if k >= key}
        self._readings = {k: readings for k, readings in self._readings.items() if k >= key}
        self._there = {k: peers for k, peers in self._there.items() if k >= key}
        self._came = {k: peers for k, peers in self._came.items() if k >= key}
        kept = {(peer, k): cost for (peer, k), cost in self._cost.items() if k >= key}
        self._cost = defaultdict(Cost, kept)
        self._of_strangers = Counter({k: read for k, read in self._of_strangers.items() if k >= key})
        self._context_missed = Counter({(peer, k): n for (peer, k), n in self._context_missed.items() if k >= key})
        self._without_context = {name for name in self._without_context if name.key >= key}
        self._refusals.forget_before(key.round)


File = tuple[RoundKey, str]
"""Stage and peer."""


class EarlyGroups:
    """Holds what was verified of peers' groups before the files that name them came, for the last rounds."""

    def __init__(
        self,
        ctx: NodeContext,
        files: PeersFiles,
        admission: Admission,
        mixtures: Mixtures,
        task_source: TaskSource,
    ) -> None:
        self._ctx = ctx
        self._files = files
        self._admission = admission
        self._mixtures = mixtures
        self._task_source = task_source
        self._expected: dict[str, None] = {}
        """Peers whose last file named groups before it."""
        self._kept: dict[File, dict[int, tuple[str, GroupVerdict] | None]] = {}
        """By slot what was read: its SHA-256 and the verdict, None if there is nothing to be kept."""
        self._read: Counter[File] = Counter()
        """Bytes."""

    def expects(self, peer: str) -> bool:
        """Tells whether groups of this peer may be there before the file that names them."""
        return peer in self._expected and not self._ctx.settings.sparing

    def learns(self, peer: str, *, one_by_one: bool) -> None:
        """Learns how the file came that was read last of a peer who is alive or has a clean record."""
        self._expected.pop(peer, None)
        if one_by_one and len(self._expected) < self._ctx.settings.limits.max_peers:
            self._expected[peer] = None

    async def look_into(self, key: RoundKey, peer: str, slots: Set[int]) -> None:
        """Verify these groups, as far as they are there."""
        kept = self._kept.setdefault((key, peer), {})
        try:
            groups = [early async for early in self._there(key, peer, sorted(slots - kept.keys()))]
            kept |= dict.fromkeys((early.group.slot for early in groups), None)
            await self._verify(kept, groups)
        except (ProtocolError, StoreError):
            self._expected.pop(peer, None)

    async def _there(self, key: RoundKey, peer: str, slots: Sequence[int]) -> AsyncIterator[EarlyGroup]:
        """Raises ProtocolError where a group cannot be taken."""
        for slot in slots:
            if not self._has_room(key, peer):
                return
            if early := await self._ctx.blocking.run(self._files.early, key, peer, slot):
                self._read[key, peer] += early.size
                self._admission.check_size([early.group])
                if refusal := self._admission.refusals(peer, key, [early.group], self._mixtures.known(peer))[0]:
                    raise refusal
                yield early

    async def _verify(self, kept: dict[int, tuple[str, GroupVerdict] | None], groups: Sequence[EarlyGroup]) -> None:
        """Raises ProtocolError where an answer had to be killed."""
        left = list(groups)
        verdicts_of = verify(
            self._task_source, [early.group for early in groups], [early.claims for early in groups], trusting=True
        )
        async for verdicts in verdicts_of:
            for early, verdict in zip(left, verdicts, strict=False):
                if verdict.cost.excess:
                    raise ProtocolError("scorer_abuse", "an answer had to be killed, or took long")
                kept[early.group.slot] = (early.sha256, verdict) if verdict.scored else None
            del left[: len(verdicts)]

    def take(self, key: RoundKey, peer: str, named: Mapping[int, str]) -> dict[int, GroupVerdict]:
        """Returns, by slot, the verdicts on the groups that a file names, and forgets them."""
        kept = self._kept.pop((key, peer), {})
        self._read.pop((key, peer), None)
        return {slot: found[1] for slot, found in kept.items() if found and named.get(slot) == found[0]}

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds."""
        self._kept = {file: kept for file, kept in self._kept.items() if file[0] >= key}
        self._read = Counter({file: read for file, read in self._read.items() if file[0] >= key})

    def _has_room(self, key: RoundKey, peer: str) -> bool:
        settings = self._ctx.settings
        within_file = self._read[key, peer] < settings.limits.max_file_bytes
        return peer in self._expected and within_file and self._read.total() < settings.limits.pool_bytes
