"""What peers published, on its way into the swarm pool.

    listing ─whom to read─▶ bounded read ─▶ decode ─▶ admitted? ─▶ regenerate, score, compare ─▶ pool ─▶ PeerArrived
            selection.py     reading.py               admission.py  verification.py              pool.py

    waits for   its turn: one file at a time, those of peers with a clean record first (priority_lock.py)
    unblocks    the gathering, by PeerArrived: also of a peer whose file was refused, or is not read at all

All of it goes on while the executor computes. Whatever is wrong is counted by reason and peer, and named in the log as
far as there is room; how often it happens decides who is read at all (quarantine.py).
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Set

import anyio
from anyio import to_thread

from swarm.config import Settings
from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.clock import Clock
from swarm.node.base.log_once import LogOnce
from swarm.node.base.timeline import Timeline
from swarm.node.sharing.admission import Admission
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.intake_counts import OTHERS, Counts
from swarm.node.sharing.pool import Place, Pool, place_of
from swarm.node.sharing.priority_lock import PriorityLock
from swarm.node.sharing.quarantine import Quarantine
from swarm.node.sharing.reading import MOST_AGAIN, PeersFile, Reading, changed, peers_file, read_bytes
from swarm.node.sharing.selection import Selection, random_order
from swarm.node.sharing.verification import TaskSource, Verdict, verify
from swarm.store.folder.fetch import list_nodes
from swarm.types import RoundKey, ScoredGroup
from swarm.wire.layout import Layout
from swarm.wire.messages import MetricsRow

logger = get_logger(__name__)

CLEAN, ALIVE, STRANGER, REFUSED, COSTLY = range(5)
"""Ranks, in the order in which peers' files are read; COSTLY: scoring some of the file had to be killed."""
LINES_PER_PEER = 3
LINES_PER_ROUND = 50
"""Of refusals in the log; the others are counted alone, so that nobody can fill a disk with them."""
LONGEST_DETAIL = 400
"""Characters."""


class Intake:
    """Reads, verifies, and keeps what a node may learn from."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        node_id: str,
        *,
        assigned: AssignedQuestions,
        task_source: TaskSource,
        clock: Clock,
        on_arrival: Callable[[RoundKey, str], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._task_source = task_source
        self._clock = clock
        self._on_arrival = on_arrival
        self._admission = Admission.of(settings, assigned)
        self._pool = Pool(self._admission.is_drawn)
        self._quarantine = Quarantine(settings.quarantine_rounds)
        self._priority_lock = PriorityLock()
        self._secret = secrets.randbits(62)
        self._selections: dict[RoundKey, Selection] = {}
        self._readings: dict[tuple[RoundKey, str], Reading] = {}
        self._copies: set[Place] = set()
        """Groups that were counted as copied."""
        self._lines: Counter[tuple[int, str]] = Counter()
        self._oldest = RoundKey(0)
        self.activity = Timeline(clock.monotonic)
        """When files were read, verified or scored; the own publishing is counted in."""
        self._counts = Counts()
        self._unlistable = LogOnce("rollouts.unlistable", over="rollouts.listable")

    # ── what the node asks for ──────────────────────────────────────────────────────────────────────────────────────
    async def look(self, keys: Set[RoundKey], live: Set[str], tasks: anyio.abc.TaskGroup) -> None:
        """List these rounds, take in what is new, and see whether what was taken in is still what it was."""
        for key in sorted(key for key in keys if key >= self._oldest):
            new = Selection(self._settings.max_peers, random_order(self._secret, key))
            selection = self._selections.setdefault(key, new)
            held = [peer for peer in self._quarantine.held(key.round) if peer not in selection.taken]
            await self._pass_over(key, held, selection)
            await self._look_at(key, live, selection, tasks)
        await self._look_again(keys)

    def groups(self, sources: Sequence[tuple[str, RoundKey]]) -> list[ScoredGroup]:
        """The verified groups of these peers for these rounds and stages, copies left out, in a fixed order."""
        groups, copies = self._pool.groups(sources)
        for group in copies:
            if place_of(group) not in self._copies:
                self._copies.add(place_of(group))
                detail = f"group {group.slot} is another one's, word for word"
                self._refuse(RoundKey(group.round, group.stage), group.peer_id, ProtocolError("copied", detail))
        return groups

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds, those still waiting to be read too; a daemon runs for weeks."""
        self._oldest = key
        self._pool.forget_before(key)
        self._selections = {k: selection for k, selection in self._selections.items() if k >= key}
        self._readings = {(k, peer): reading for (k, peer), reading in self._readings.items() if k >= key}
        self._copies = {place for place in self._copies if place[:2] >= key}
        self._lines = Counter({(r, peer): lines for (r, peer), lines in self._lines.items() if r >= key.round})
        self.activity.forget_before(self._clock.monotonic())

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
    async def _look_at(self, key: RoundKey, live: Set[str], selection: Selection, tasks: anyio.abc.TaskGroup) -> None:
        clean = self._quarantine.clean()
        self._counts.alive |= live
        try:
            names = await to_thread.run_sync(self._names, key, (clean | live) - selection.taken, selection.flooded)
        except StoreError as error:
            self._unlistable.found(error)
            return
        self._unlistable.gone()
        choice = selection.choose(names - {self._node_id}, clean, live)
        if choice.flood:
            self._flooded(key, choice.flood)
        for peer in choice.read:
            tasks.start_soon(self._take, key, peer, self._rank(peer, clean, live))
        await self._pass_over(key, choice.passed_over, selection)

    def _names(self, key: RoundKey, known: Set[str], flooded: bool) -> Set[str]:
        """The nodes that have a file here; of a flooded stage those of the known ones, which costs no listing."""
        if not flooded:
            return list_nodes(self._layout.rollouts_of(key))
        # Path.exists would raise where the folder may not be entered, or its mount went stale
        return {peer for peer in known if os.path.lexists(self._layout.rollout_file(key, peer))}

    async def _pass_over(self, key: RoundKey, peers: Sequence[str], selection: Selection) -> None:
        """Nobody waits for those that are not read."""
        selection.taken.update(peers)
        for peer in peers:
            await self._on_arrival(key, peer)

    def _rank(self, peer: str, clean: Set[str], live: Set[str]) -> int:
        if peer in clean:
            return CLEAN
        if self._quarantine.record(peer)[1]:
            return REFUSED
        return ALIVE if peer in live else STRANGER

    # ── one file ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _take(self, key: RoundKey, peer: str, rank: int) -> None:
        async with self._priority_lock.hold(rank):
            if key < self._oldest:
                return
            with self.activity.running():
                groups = await self._verified(key, peer, rank)
        if key >= self._oldest:
            self._pool.put(key, peer, groups)
            await self._on_arrival(key, peer)

    async def _verified(self, key: RoundKey, peer: str, rank: int) -> list[ScoredGroup]:
        try:
            file = await self._read(key, peer)
            self._admission.check_size(file.groups)
            accepted = await self._accepted(key, peer, file, rank)
        except FileNotFoundError:
            return []  # deleted between listing and reading: retention at work
        except ProtocolError as error:
            self._refuse(key, peer, error)
            return []
        self._counts.accepted_by_peer[peer] += len(accepted)
        self._counts.latencies.append(self._clock.wall() - file.timestamp)
        logger.debug("peer.arrived", peer=peer, round=key.round, groups=len(accepted), bytes=file.size)
        return accepted

    async def _read(self, key: RoundKey, peer: str) -> PeersFile:
        path, settings = self._layout.rollout_file(key, peer), self._settings

        def read() -> tuple[Reading, PeersFile | ProtocolError]:
            data, reading = read_bytes(path, settings.max_file_bytes)
            try:
                return reading, peers_file(
                    data,
                    self._layout,
                    peer,
                    key,
                    origin_needed=self._admission.origin_needed,
                    keep_tokens=settings.importance_cap > 0,
                )
            except ProtocolError as error:
                return reading, error

        reading, file = await to_thread.run_sync(read)
        self._readings[key, peer] = reading
        self._counts.bytes_fetched += reading.stamp.size
        if isinstance(file, ProtocolError):
            raise file
        return file

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

    async def _look_again(self, keys: Set[RoundKey]) -> None:
        """A published file never changes: one that does told different readers different things."""
        places = {r.path: place for place, r in self._readings.items() if place[0] in keys and r.again < MOST_AGAIN}
        readings = [self._readings[place] for place in places.values()]
        limit, trust = self._settings.max_file_bytes, self._layout.trust
        others, touched = await to_thread.run_sync(changed, readings, limit, trust)
        self._readings |= {places[r.path]: r for r in touched if places[r.path] in self._readings}
        for reading in others:
            key, peer = places[reading.path]
            self._readings.pop((key, peer), None)  # said once; what was read first stays
            self._refuse(key, peer, ProtocolError("equivocation", f"{reading.path} has changed since it was read"))

    # ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────
    def _refuse(self, key: RoundKey, peer: str, error: ProtocolError) -> None:
        self._counts.refused_by_peer[peer][error.reason] += 1
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

    def _flooded(self, key: RoundKey, names: int) -> None:
        self._counts.refused_by_peer[OTHERS]["flood"] += names
        logger.warning("rollouts.flood", round=key.round, stage=key.stage, names=names, read=self._settings.max_peers)
