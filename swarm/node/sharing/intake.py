"""Intake: lists peers' rollout files, and has those groups of them examined that are drawn.

    listing ─whom to read─▶ drawn? ─▶ examination ─▶ pool ─▶ the sample of the round
            selection.py    algo/     examination.py pool.py
                            drawing.py

    waits for   the line: one file at a time, those of peers with a clean record first (PriorityLock)
    unblocks    the gathering, by what it tells of each peer: also of one whose file is not to be read at all

What is drawn is examined when the gathering is over; what will be drawn if all live peers publish, as soon as it is
listed, also while this node computes. Only what was listed is ever drawn, and of that no more than is needed.

Where there is no file that can be taken, and later there is, that one is read: the first may be a stranger's. What
certainly is (a link, something that its author did not sign) is no arrival of the peer's, or takes it back.

How often something is wrong with a peer's files decides whether it is read at all (Quarantine).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

import anyio
from anyio.abc import TaskGroup

from swarm.algo.drawing import NO_GROUP, Drawing, DrawnSample, NoGroup, random_ranks
from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext, Timeline
from swarm.node.base.looking import LogOnce
from swarm.node.sharing.admission import Admission, AssignedQuestions, Mixtures
from swarm.node.sharing.contexts import LOOK_AGAIN
from swarm.node.sharing.examination import ALIVE, CLEAN, REFUSED, STRANGER, Examination, FileNews, StageFiles
from swarm.node.sharing.pool import GroupName, each_once
from swarm.node.sharing.selection import IntakeCounts, Quarantine, Selection
from swarm.node.sharing.verification import TaskSource
from swarm.records.listing import good_for
from swarm.types import RoundKey, ScoredGroup
from swarm.wire.messages import MetricsRow

logger = get_logger(__name__)

MOST_DRAWINGS = 4
"""That are held when a round begins: some were made for it ahead."""
NO_SLOT = -1
"""Asks for a file to be read, and for none of its groups."""

Source = tuple[str, RoundKey]
"""A peer, and the round and stage of one of its files."""

Found = Callable[[Source, int], ScoredGroup | NoGroup | None]
SLOW = 1.0
"""Seconds for which a part of a draw is waited for before more is drawn: its publisher may keep the scorer busy."""


@dataclass(frozen=True)
class WantedDraw:
    """Says which of its peers' groups a round draws."""

    slots: int
    """Slots of each peer that take part."""
    count: int | None
    """Informative groups; None: all groups are looked at."""
    trained: Set[GroupName]
    """Those that are not drawn again."""
    purpose: tuple[str | int, ...]
    """Beside the run's seed what decides in which order: such as "external", node and round."""
    most_of_peer: int | None = None
    """Most informative groups of one peer that count; None: all."""


class Intake:
    """Lists, reads, verifies, and keeps what a node may learn from."""

    def __init__(
        self,
        ctx: NodeContext,
        assigned: AssignedQuestions,
        task_source: TaskSource,
        tell: Callable[[RoundKey, Set[str], FileNews], None],
    ) -> None:
        """`tell`: told of peers and a stage what there is of them."""
        self._ctx = ctx
        self._tell = tell
        self._admission = Admission(ctx.settings, assigned)
        self._may_be_copies = assigned.same_for_all  # else what is drawn is none
        self.mixtures = Mixtures(assigned.universe)
        """Mixtures of tasks, as peers ask them."""
        self._examination = Examination(ctx, self._admission, self.mixtures, task_source, tell)
        self._quarantine = Quarantine(ctx.settings.limits.quarantine_rounds)
        self._live: Set[str] = frozenset()
        self._clean: Set[str] = frozenset()
        """Who is alive, and who has a clean record, as of the last look."""
        self._drawings: dict[tuple[str | int, ...], tuple[object, Drawing[Source]]] = {}
        self._drawn = RoundKey(-1)
        """The latest round of the last draw."""
        self._ranks: dict[tuple[str | int, ...], Callable[[Source], list[int]]] = {}
        """By purpose."""
        self._foresee: Callable[[RoundKey], WantedDraw | None] = lambda _: None
        self._at_work: set[Source] = set()
        """Files that are being examined, or wait for it."""
        self._progress = anyio.Event()
        """Set when the examination of a file has ended."""
        self._oldest = RoundKey(0)
        self.fetching = Timeline(ctx.clock.monotonic)
        """When peers' files were read, verified or scored."""
        self._unlistable = LogOnce("rollouts.unlistable", over="rollouts.listable")

    # ── what the node asks for ──────────────────────────────────────────────────────────────────────────────────────
    async def look(self, keys: Set[RoundKey], live: Set[str], tasks: TaskGroup) -> None:
        """List these rounds, and examine what will be drawn."""
        for key in sorted(key for key in keys if key >= self._oldest):
            stage = self._examination.stage(key)
            held = [peer for peer in self._quarantine.held(key.round) if peer not in stage.selection.taken]
            self._pass_over(key, held, stage.selection)
            await self._look_at(key, live, stage)
            obstacles = [
                peer for peer, tag in stage.tags.items() if not tag and not self._examination.pool.has(key, peer)
            ]
            self._examine([((peer, key), NO_SLOT) for peer in obstacles], tasks)
            self._look_ahead(key, live, tasks)

    @property
    def good_for(self) -> float:
        """Returns the seconds for which another look would find the listings of the last one."""
        return max((good_for(len(stage.listed)) for stage in self._examination.stages.values()), default=0.0)

    def foresee(self, wanted: Callable[[RoundKey], WantedDraw | None]) -> None:
        """Takes a function that says what a later round will draw from all live peers' files, or None where that is not
        known yet."""
        self._foresee = wanted

    async def draw(self, wanted: WantedDraw, sources: Sequence[Source], until: float, tasks: TaskGroup) -> DrawnSample:
        """Examine what is drawn of these files, and no more; what is not done at `until` (monotonic) is left out."""
        drawing = self._drawing(wanted, dict(sources))
        found = self._found(wanted.trained)
        with self._ctx.clock.move_on_after(max(0.0, until - self._ctx.clock.monotonic())):
            slow: frozenset[tuple[Source, int]] = frozenset()
            while wave := drawing.wanted(found, slow):
                with self._ctx.clock.move_on_after(SLOW):
                    await self._examined(wave, found, tasks)
                slow = frozenset(wave)
        self._drawn = max(key for _, key in sources) if sources else self._drawn
        return drawing.sample(found)

    @property
    def clean(self) -> frozenset[str]:
        """Returns peers with a clean record."""
        return self._quarantine.clean()

    def listed(self, key: RoundKey) -> frozenset[str]:
        """Returns the nodes that have had a file for a round."""
        return self._examination.stage(key).listed

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds, those still waiting to be read too; a daemon runs for weeks."""
        self._oldest = key
        self._examination.forget_before(key)
        for held in (self._drawings, self._ranks):
            while len(held) > MOST_DRAWINGS:
                del held[next(iter(held))]

    def close_round(self, round_: int) -> IntakeCounts:
        """Returns what was counted since the last call, for this round's row, and updates the quarantine by it."""
        taken, self._examination.counts = self._examination.counts, IntakeCounts()
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
    async def _look_at(self, key: RoundKey, live: Set[str], stage: StageFiles) -> None:
        clean = self._clean = self._quarantine.clean()
        self._examination.counts.alive |= live
        self._live = live
        try:
            tags = await self._examination.list(key, clean | live)
        except StoreError as error:
            self._unlistable.found(error)
            return
        self._unlistable.gone()
        if key < self._oldest:
            return  # the clock went on while the round was listed
        if new := tags.keys() - stage.listed:
            if stage.looked:
                stage.came.update(dict.fromkeys(new, self._ctx.clock.wall()))
            stage.listed = stage.listed.union(new)
        stage.looked = True
        choice = stage.selection.choose(tags.keys() - {self._ctx.node_id}, clean, live)
        if choice.flood:
            self._examination.flood(key, choice.flood)
        stage.tags.update(dict.fromkeys(choice.read, ""))
        self._examination.follow(key, tags, clean | live)
        self._pass_over(key, choice.passed_over, stage.selection)

    def _pass_over(self, key: RoundKey, peers: Sequence[str], selection: Selection) -> None:
        """Has nobody wait for peers that are not read."""
        selection.taken.update(peers)
        if peers:
            self._tell(key, set(peers), FileNews.THERE)

    def _rank(self, peer: str) -> int:
        if peer in self._clean:
            return CLEAN
        if self._quarantine.record(peer)[1]:
            return REFUSED
        return ALIVE if peer in self._live else STRANGER

    # ── what is drawn ───────────────────────────────────────────────────────────────────────────────────────────────
    def _drawing(self, wanted: WantedDraw, sources: Mapping[str, RoundKey]) -> Drawing[Source]:
        """Returns the one of before, where nothing has changed: it is asked for at every look."""
        asked = (wanted.slots, wanted.count, wanted.most_of_peer, sources)
        last = self._drawings.get(wanted.purpose)
        if last is None or last[0] != asked:
            originals = each_once if self._may_be_copies else list
            drawing = Drawing(sources.items(), self._ranks_of(wanted), wanted.count, originals, wanted.most_of_peer)
            last = self._drawings[wanted.purpose] = (asked, drawing)
        return last[1]

    def _ranks_of(self, wanted: WantedDraw) -> Callable[[Source], list[int]]:
        """Held, for files come one after the other, and with each the order is made anew."""
        asked = (*wanted.purpose, wanted.slots)
        if asked not in self._ranks:
            ranks = random_ranks(self._ctx.settings.seed, *wanted.purpose)
            self._ranks[asked] = cache(lambda source: ranks(_place(source), wanted.slots))
        return self._ranks[asked]

    def _found(self, trained: Set[GroupName]) -> Found:
        def found(source: Source, slot: int) -> ScoredGroup | NoGroup | None:
            name = GroupName(source[1], source[0], slot)
            return NO_GROUP if name in trained or name.key < self._oldest else self._examination.pool.found(name)

        return found

    def _look_ahead(self, key: RoundKey, live: Set[str], tasks: TaskGroup) -> None:
        """Examines what is there by now of the groups that are drawn next if all live peers publish."""
        if wanted := self._foreseen(key):
            there = (live | self._examination.stage(key).tags.keys()) - {self._ctx.node_id}
            self._drawing(wanted, dict.fromkeys(there, key))
            self._examine_next(wanted, key, tasks)

    def _foreseen(self, key: RoundKey) -> WantedDraw | None:
        """Returns what will be drawn of a round, if that is known and still to come."""
        return self._foresee(key) if key >= self._oldest and key > self._drawn else None

    def _examine_next(self, wanted: WantedDraw, key: RoundKey, tasks: TaskGroup) -> None:
        tags = self._examination.stage(key).tags
        _, drawing = self._drawings[wanted.purpose]
        unknown = drawing.wanted(self._found(wanted.trained))
        self._examine([place for place in unknown if tags.get(place[0][0])], tasks)

    async def _examined(self, wave: Sequence[tuple[Source, int]], found: Found, tasks: TaskGroup) -> None:
        while wave := [place for place in wave if found(*place) is None]:
            progress = self._progress
            self._examine(wave, tasks)
            await progress.wait()

    # ── one file ────────────────────────────────────────────────────────────────────────────────────────────────────
    def _examine(self, wave: Iterable[tuple[Source, int]], tasks: TaskGroup) -> None:
        by_file: dict[Source, set[int]] = defaultdict(set)
        for source, slot in wave:
            by_file[source].add(slot)
        for source, slots in sorted(by_file.items(), key=lambda file: (self._rank(file[0][0]), file[0])):
            if source not in self._at_work:  # else it is asked for again when that has ended
                self._at_work.add(source)
                tasks.start_soon(self._examine_file, source, slots, tasks)

    async def _examine_file(self, source: Source, slots: Set[int], tasks: TaskGroup) -> None:
        peer, key = source
        rank = self._rank(peer)
        async with self._examination.line.hold(rank):
            if key >= self._oldest:
                with self.fetching.running():
                    is_stranger = rank != CLEAN and peer not in self._live
                    await self._examination.look_into(key, peer, slots, rank, is_stranger=is_stranger)
        if self._examination.waits_for_context(key, peer, slots):
            await self._ctx.clock.sleep(LOOK_AGAIN)  # others are examined meanwhile
        self._at_work.discard(source)
        self._progress.set()
        self._progress = anyio.Event()
        if (wanted := self._foreseen(key)) and wanted.purpose in self._drawings:
            self._examine_next(wanted, key, tasks)


def _place(source: Source) -> str:
    peer, key = source
    return f"{peer}/{key.round}/{key.stage}"
