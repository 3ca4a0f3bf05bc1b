"""Intake pipeline: lists, reads, admits and verifies peers' rollout files, and puts their groups into the pool.

    listing ─whom to read─▶ bounded read ─▶ decode ─▶ admitted? ─▶ regenerate, score, compare ─▶ pool ─▶ PeerArrived
            selection.py     reading.py               admission.py  verification.py              pool.py

    waits for   the priority lock: one file at a time, those of peers with a clean record first (priority_lock.py)
    unblocks    the gathering, by PeerArrived: also of a peer whose file was refused, or is not read at all

Where there is no file that can be taken, and later there is, that one is read: the first may be a stranger's. What
certainly is (a link, something that its author did not sign) is no arrival of the peer's.

All of it goes on while the executor computes. Whatever is wrong is counted by reason and peer, and named in the log as
far as there is room (intake_counts.py); how often it happens decides who is read at all (quarantine.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import replace

from anyio.abc import TaskGroup

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import LogOnce
from swarm.node.base.timeline import Timeline
from swarm.node.sharing.admission import Admission
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.intake_counts import OTHERS, Counts, Refusals
from swarm.node.sharing.pool import Pool
from swarm.node.sharing.priority_lock import PriorityLock
from swarm.node.sharing.quarantine import NOT_ITS_OWN, Quarantine
from swarm.node.sharing.reading import PeersFile, PeersFiles, Reading
from swarm.node.sharing.selection import Selection, random_order
from swarm.node.sharing.trained_groups import GroupName, name_of
from swarm.node.sharing.verification import TaskSource, Verdict, verify
from swarm.types import RoundKey, ScoredGroup
from swarm.wire.messages import MetricsRow

logger = get_logger(__name__)

NOT_THE_PEERS = NOT_ITS_OWN | {"not_a_file"}
"""Reasons for which what lies at a peer's name is none of its files."""
CLEAN, ALIVE, STRANGER, REFUSED, COSTLY = range(5)
"""Ranks, in the order in which peers' files are read; COSTLY: scoring some of the file had to be killed."""


class Intake:
    """Reads, verifies, and keeps what a node may learn from."""

    def __init__(
        self,
        ctx: NodeContext,
        assigned: AssignedQuestions,
        task_source: TaskSource,
        on_arrival: Callable[[RoundKey, str, bool], Awaitable[None]],
    ) -> None:
        """`on_arrival`: told of every peer and stage once its file is in the pool, refused, or is not to be read; False
        if what lies there is not the peer's.
        """
        self._ctx = ctx
        self._task_source = task_source
        self._on_arrival = on_arrival
        self._files = PeersFiles(ctx.settings, ctx.run)
        self._admission = Admission(ctx.settings, assigned)
        self._pool = Pool(self._admission.is_drawn, most_bytes=ctx.settings.pool_bytes)
        self._quarantine = Quarantine(ctx.settings.quarantine_rounds)
        self._priority_lock = PriorityLock()
        self._selections: dict[RoundKey, Selection] = {}
        self._readings: dict[RoundKey, dict[str, Reading]] = {}
        self._live: Set[str] = frozenset()
        """As of the last look."""
        self._of_strangers: Counter[RoundKey] = Counter()
        """Bytes that were read of nodes that are neither alive nor known for good files: together about one file's."""
        self._copies: set[GroupName] = set()
        """Groups that were counted as copied."""
        self._listed: dict[RoundKey, frozenset[str]] = {}
        """The nodes that had a file when a round was listed last."""
        self._oldest = RoundKey(0)
        self.activity = Timeline(ctx.clock.monotonic)
        """When files were read, verified or scored; the own publishing is counted in."""
        self._counts = Counts()
        self._refusals = Refusals()
        self._unlistable = LogOnce("rollouts.unlistable", over="rollouts.listable")

    # ── what the node asks for ──────────────────────────────────────────────────────────────────────────────────────
    async def look(self, keys: Set[RoundKey], live: Set[str], tasks: TaskGroup) -> None:
        """List these rounds, take in what is new, and see whether what was taken in is still what it was."""
        for key in sorted(key for key in keys if key >= self._oldest):
            new = Selection(self._ctx.settings.max_peers, random_order(self._ctx.process.secret, key))
            selection = self._selections.setdefault(key, new)
            held = [peer for peer in self._quarantine.held(key.round) if peer not in selection.taken]
            await self._pass_over(key, held, selection)
            await self._look_at(key, live, selection, tasks)

    def listed(self, key: RoundKey) -> frozenset[str]:
        """The nodes that had a file for a round when it was listed last."""
        return self._listed.get(key, frozenset())

    def groups(self, sources: Sequence[tuple[str, RoundKey]]) -> list[ScoredGroup]:
        """The verified groups of these peers for these rounds and stages, copies left out, in a fixed order."""
        groups, copies = self._pool.groups(sources)
        for group in copies:
            if name_of(group) not in self._copies:
                self._copies.add(name_of(group))
                detail = f"group {group.slot} is another one's, word for word"
                self._refuse(RoundKey(group.round, group.stage), group.peer_id, ProtocolError("copied", detail))
        return groups

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds, those still waiting to be read too; a daemon runs for weeks."""
        self._oldest = key
        self._pool.forget_before(key)
        self._selections = {k: selection for k, selection in self._selections.items() if k >= key}
        self._readings = {k: readings for k, readings in self._readings.items() if k >= key}
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
    async def _look_at(self, key: RoundKey, live: Set[str], selection: Selection, tasks: TaskGroup) -> None:
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
        changed = [peer for peer, reading in read.items() if tags.get(peer, "") not in ("", reading.tag)]
        replaced = [peer for peer in changed if read[peer].refused and peer in clean | live]
        for peer in replaced:
            self._readings[key][peer] = replace(read[peer], tag=tags[peer])  # it is read once
        for peer in [*choice.read, *replaced]:
            tasks.start_soon(self._take, key, peer, tags[peer], self._rank(peer, clean, live))
        await self._pass_over(key, choice.passed_over, selection)
        for peer in changed:
            if not read[peer].refused:
                await self._look_again(key, peer, read[peer])

    async def _pass_over(self, key: RoundKey, peers: Sequence[str], selection: Selection) -> None:
        """Nobody waits for those that are not read."""
        selection.taken.update(peers)
        for peer in peers:
            await self._on_arrival(key, peer, True)

    def _rank(self, peer: str, clean: Set[str], live: Set[str]) -> int:
        if peer in clean:
            return CLEAN
        if self._quarantine.record(peer)[1]:
            return REFUSED
        return ALIVE if peer in live else STRANGER

    # ── one file ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _take(self, key: RoundKey, peer: str, tag: str, rank: int) -> None:
        async with self._priority_lock.hold(rank):
            if key < self._oldest:
                return
            with self.activity.running():
                groups = await self._verified(key, peer, tag, rank)
        if key < self._oldest:
            return
        for full_key, full_peer in self._pool.put(key, peer, groups) if groups is not None else ():
            most = self._ctx.settings.pool_bytes
            detail = f"the groups of all peers take more than {most} bytes (SWARM_POOL_BYTES)"
            self._refuse(full_key, full_peer, ProtocolError("pool_full", detail))
        reading = self._readings.get(key, {}).get(peer)
        await self._on_arrival(key, peer, reading is None or reading.refused not in NOT_THE_PEERS)

    async def _verified(self, key: RoundKey, peer: str, tag: str, rank: int) -> list[ScoredGroup] | None:
        """The groups of one file that may come in; None if it is no file that can be taken."""
        is_stranger = rank != CLEAN and peer not in self._live
        if is_stranger and self._of_strangers[key] >= self._ctx.settings.max_file_bytes:
            self._counts.refused_by_peer[OTHERS]["flood"] += 1
            return []
        try:
            file = await self._read(key, peer, tag)
            if is_stranger:
                self._of_strangers[key] += self._readings[key][peer].size
            if file is None:
                return None
            self._admission.check_size(file.groups)
            accepted = await self._accepted(key, peer, file, rank)
        except ProtocolError as error:
            self._refuse(key, peer, error)
            return []
        except StoreError as error:  # nothing that is the peer's fault; nobody waits for it in this round
            self._refuse(key, peer, ProtocolError("unreadable", str(error)))
            return []
        self._counts.accepted_by_peer[peer] += len(accepted)
        self._counts.latencies.append(self._ctx.clock.wall() - file.timestamp)
        logger.debug("peer.arrived", peer=peer, round=key.round, groups=len(accepted), bytes=file.size)
        return accepted

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

    async def _accepted(self, key: RoundKey, peer: str, file: PeersFile, rank: int) -> list[ScoredGroup]:
        """The groups of one file that may come in; none at all of one that abuses the scorer."""
        refusals = self._admission.refusals(peer, key, file.groups)
        for refusal in filter(None, refusals):
            self._refuse(key, peer, refusal)
        groups = [group for group, refusal in zip(file.groups, refusals, strict=True) if not refusal]
        claims = [claim for claim, refusal in zip(file.claims, refusals, strict=True) if not refusal]
        accepted: list[ScoredGroup] = []
        async for verdicts in verify(self._task_source, groups, claims, trusting=rank == CLEAN):
            accepted += [scored for verdict in verdicts if (scored := self._counted(key, peer, verdict))]
            rank = COSTLY if any(verdict.killed for verdict in verdicts) else rank
            await self._priority_lock.let_others_first(rank)
        return accepted

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
