"""Examines one peer's file: reads it, once, and verifies those of its groups that are drawn.

    what is listed ─follow─▶ to be read ─▶ bounded read ─▶ admitted? ─▶ pool ─▶ regenerate, score, compare ─▶ pool
                                │           reading.py     admission.py          verification.py
                                └──── FileNews: there is a file, it is none of the peer's, a group of it is valid

One file costs no more than its size and MOST_KILLED answers allow; whatever is wrong with it is counted by reason and
peer, and named in the log as far as there is room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import anyio

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.sharing.admission import Admission, Mixtures
from swarm.node.sharing.contexts import CONTEXT_GONE
from swarm.node.sharing.pool import GroupName, Pool, name_of
from swarm.node.sharing.reading import MISSING, PeersFile, PeersFiles, Reading
from swarm.node.sharing.selection import (
    NOT_ITS_OWN,
    OTHERS,
    IntakeCounts,
    PriorityLock,
    Selection,
    random_order,
)
from swarm.node.sharing.verification import Cost, GroupVerdict, TaskSource, verify
from swarm.records.listing import NodeFiles
from swarm.store.base import Entry, Kind
from swarm.types import RolloutGroup, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.codec import Claims

logger = get_logger(__name__)

UNSEEN = "unseen"
"""Instead of a tag, where only names were listed."""
NOT_THE_PEERS = NOT_ITS_OWN | {"not_a_file", MISSING}
"""Reasons for which what lies at a peer's name is none of its files."""
MOST_TIMES_MISSED = 8
"""Times that contexts of a file are looked for before its groups are refused that have none: all of them have had the
same time to come."""
CLEAN, ALIVE, STRANGER, REFUSED, COSTLY = range(5)
"""Ranks, in the order in which peers' files are read; COSTLY: scoring some of the file had to be killed."""
LINES_PER_PEER = 3
LINES_PER_ROUND = 50
"""Lines of refusals in the log; the others are counted alone, so that nobody can fill a disk with them."""
LONGEST_DETAIL = 400
"""Characters."""


class FileNews(Enum):
    """Says what there is of one peer's file for a stage."""

    THERE = auto()
    """A file of the peer's is listed, or the peer is not read: nobody is to wait for it."""
    NOT_THEIRS = auto()
    """What is listed is none of the peer's files: as if nothing were there."""
    VALID = auto()
    """A group of it was verified."""


@dataclass
class StageFiles:
    """Holds what is known of the peers' files of one stage."""

    selection: Selection
    listed: frozenset[str] = frozenset()
    """Nodes that have had a file."""
    looked: bool = False
    """The stage was listed before."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags of the files that may be read; "" where what is listed is no file."""
    readings: dict[str, Reading] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    """Peers of whom THERE was told."""
    came: dict[str, float] = field(default_factory=dict)
    """When a listing first showed a peer's file, Unix seconds; of those alone that came while this node looked."""
    cost: defaultdict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    """Cost of a peer's file."""
    of_strangers: int = 0
    """Bytes that were read of nodes that are neither alive nor known for good files: together about one file's."""
    context_missed: Counter[str] = field(default_factory=Counter)
    """How often contexts of a peer's file were looked for in vain."""
    without_context: set[GroupName] = field(default_factory=set)
    """Groups that are to be looked at again."""


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
        self._stages = NodeFiles(ctx.run.store, ctx.clock.monotonic)
        self._listing = anyio.Lock()
        """A round in hand may list beside who watches the place."""
        self._admission = admission
        self._mixtures = mixtures
        self.pool = Pool(most_bytes=ctx.settings.limits.pool_bytes)
        self.line = PriorityLock()
        """Whose turn it is: one file at a time."""
        self.stages: dict[RoundKey, StageFiles] = {}
        self.counts = IntakeCounts()
        self._lines: Counter[tuple[int, str]] = Counter()
        """Of refusals in the log, by round and peer."""

    def stage(self, key: RoundKey) -> StageFiles:
        """Returns what is known of a stage's files, from the first look on."""
        if key not in self.stages:
            order = random_order(self._ctx.process.secret, key)
            self.stages[key] = StageFiles(Selection(self._ctx.settings.limits.max_peers, order))
        return self.stages[key]

    # ── what is listed ──────────────────────────────────────────────────────────────────────────────────────────────
    async def list(self, key: RoundKey, known: Set[str]) -> dict[str, str]:
        """Returns the nodes that have a file for a stage, each with its tag: "" where it is no file, UNSEEN where that
        was not looked for. In a flood of names those alone may be found that are known.

        Raises:
            StoreError: the stage cannot be listed.
        """
        again = {peer for peer, reading in self.stage(key).readings.items() if reading.may_be_read_again}
        async with self._listing:
            found = await self._ctx.blocking.run(self._listed, keys.rollouts(key), known, again & known)
        return {node: (entry.tag or UNSEEN) if entry.kind is Kind.FILE else "" for node, entry in found.items()}

    def _listed(self, prefix: str, known: Set[str], again: Set[str]) -> dict[str, Entry]:
        """A listing of a bucket has tags; of a folder each is looked for by itself."""
        found = self._stages.find(prefix, known, tags=self._ctx.settings.sparing)
        return found if self._ctx.settings.sparing else found | self._stages.by_name(prefix, again & found.keys())

    def follow(self, key: RoundKey, tags: Mapping[str, str], known: Set[str]) -> None:
        """Takes note of what is listed at the names of peers whose files may be read now.

        Args:
            known: those that are alive, or have a clean record.
        """
        stage, there = self.stage(key), set[str]()
        for peer in stage.tags.keys() & tags.keys():
            if tags[peer] == stage.tags[peer] and peer not in stage.readings:
                continue  # as most are, look by look
            if self._is_to_read(key, peer, tags[peer], is_known=peer in known):
                stage.tags[peer] = tags[peer]
                there |= {peer} if tags[peer] else set()
        self._are_there(key, there)

    def _is_to_read(self, key: RoundKey, peer: str, tag: str, *, is_known: bool) -> bool:
        """Tells whether it was not read yet, or what was read is none of the peer's files, and something else lies
        there."""
        readings = self.stage(key).readings
        before = readings.get(peer)
        if before is None:
            return True
        if tag in ("", before.tag) or not before.may_be_read_again or not is_known:
            return False
        readings[peer] = replace(before, tag=tag)  # it is read once
        self.pool.take_out(key, peer)
        return True

    def _are_there(self, key: RoundKey, peers: Set[str]) -> None:
        there = self.stage(key).there
        if new := peers - there:
            there |= new
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
        stage = self.stage(key)
        if peer not in stage.tags:
            return self.pool.empty(key, peer)
        if is_stranger and stage.of_strangers >= self._ctx.settings.limits.max_file_bytes:
            self.counts.refused_by_peer[OTHERS]["flood"] += 1
            return self.pool.empty(key, peer)
        file = await self._read(key, peer, stage.tags[peer])
        reading = stage.readings[peer]
        if is_stranger:
            stage.of_strangers += reading.size
        if file is None:
            self.pool.empty(key, peer)
            if reading.refused in NOT_THE_PEERS:
                stage.there.discard(peer)
                self._tell(key, {peer}, FileNews.NOT_THEIRS)
            return None
        self._admission.check_size(file.groups)
        if peer in stage.came:
            self.counts.latencies.append(stage.came[peer] - file.timestamp)
        self._put(key, peer, file)
        return self._are_there(key, {peer})

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
        readings = self.stage(key).readings
        fetched = await self._ctx.blocking.run(self._files.fetch, key, peer, tag)
        before = readings.get(peer)
        readings[peer] = replace(fetched.reading, again=before.again + 1 if before else 0)
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
        cost, names = self.stage(key).cost, [name_of(group) for group, _ in groups]
        accepted, done = 0, 0
        looked_again = self.stage(key).context_missed[peer]
        verdicts_of = verify(
            self._task_source,
            [group for group, _ in groups],
            [claims for _, claims in groups],
            trusting=rank == CLEAN,
            cost=cost[peer],
        )
        async for verdicts in verdicts_of:
            for name, verdict in zip(names[done:], verdicts, strict=False):
                if self._is_left_for_later(name, verdict, looked_again):
                    continue
                scored = self._counted(key, peer, verdict)
                self.pool.settle(name, scored)
                accepted += scored is not None
                cost[peer] = cost[peer].plus(verdict.cost)
            done += len(verdicts)
            rank = COSTLY if cost[peer].excess else rank
            await self.line.let_others_first(rank)
        self.counts.accepted_by_peer[peer] += accepted
        if accepted:
            self._tell(key, {peer}, FileNews.VALID)

    def _is_left_for_later(self, name: GroupName, verdict: GroupVerdict, before: int) -> bool:
        """The context of a group is not there, and may come yet; `before`: looks at its file that ended so."""
        stage = self.stage(name.key)
        stage.without_context.discard(name)
        if verdict.refusal is None or verdict.refusal.reason != CONTEXT_GONE or before + 1 >= MOST_TIMES_MISSED:
            return False
        stage.context_missed[name.peer] = before + 1
        stage.without_context.add(name)
        return True

    def waits_for_context(self, key: RoundKey, peer: str, slots: Set[int]) -> bool:
        """Tells whether the context of one of these groups was looked for, and is to be looked for again."""
        return any(GroupName(key, peer, slot) in self.stage(key).without_context for slot in slots)

    def _counted(self, key: RoundKey, peer: str, verdict: GroupVerdict) -> ScoredGroup | None:
        self.counts.killed += verdict.cost.killed
        self.counts.errors += verdict.errors
        if verdict.false_claims:
            self.counts.false_claims[peer] += verdict.false_claims
        if verdict.refusal:
            self.refuse(key, peer, verdict.refusal)
        return verdict.scored

    def refuse(self, key: RoundKey, peer: str, error: ProtocolError) -> None:
        """Count a refusal, and log it as far as there is room."""
        self.counts.refused_by_peer[peer][error.reason] += 1
        self._lines[key.round, peer] += 1
        self._lines[key.round, OTHERS] += 1
        said, said_of_all = self._lines[key.round, peer], self._lines[key.round, OTHERS]
        if said > LINES_PER_PEER or said_of_all > LINES_PER_ROUND:
            return
        last = said == LINES_PER_PEER or said_of_all == LINES_PER_ROUND
        logger.warning(
            "rollouts.refused",
            peer=peer,
            round=key.round,
            stage=key.stage,
            reason=error.reason,
            detail=error.detail[:LONGEST_DETAIL],
            **({"more": "counted in the metrics row alone"} if last else {}),
        )

    def flood(self, key: RoundKey, names: int) -> None:
        """Counts so many names of a stage that are not read; said once per stage."""
        self.counts.refused_by_peer[OTHERS]["flood"] += names
        most = self._ctx.settings.limits.max_peers
        logger.warning("rollouts.flood", round=key.round, stage=key.stage, names=names, read=most)

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds."""
        self.pool.forget_before(key)
        self.stages = {k: stage for k, stage in self.stages.items() if k >= key}
        self._lines = Counter({at: lines for at, lines in self._lines.items() if at[0] >= key.round})
