"""Early groups: those that are verified before the file that names them is there, while their author generates others.

    a look: what will likely be drawn ─▶ its file, by name ─▶ bounded read ─▶ admitted? ─▶ regenerate, score ─▶ kept
    the last file is read ─▶ what is kept of the very groups that it names is not verified again; the rest of it goes

It spares time and decides nothing: what a node learns from is what it would have found without. So whatever is wrong
with a group is left for the reading of the last file to find and to count. Only peers who published so before are
looked at, those alone that have a clean record, and of each no more bytes than one file may have; who costs the scorer
more than it gives is not looked at again until its next file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence, Set

from swarm.errors import ProtocolError, StoreError
from swarm.node.base.context import NodeContext
from swarm.node.sharing.admission import Admission
from swarm.node.sharing.assigned_questions import Mixtures
from swarm.node.sharing.reading import EarlyGroup, PeersFiles
from swarm.node.sharing.verification import GroupVerdict, TaskSource, verify
from swarm.types import RoundKey

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
