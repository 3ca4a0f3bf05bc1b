"""Reading peers' rollout files: one bounded read per file. A published file never changes.

A file is read with the groups that it names, which were published before it; all together take no more bytes than one
file may. What a stranger may have taken away or written over may come yet: then the file is as one that is not there.

All of it blocks, on files of strangers, and is called through Blocking.

PublishedGroups reads again what a node published for one stage: for redo, and for the context of a later stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.node.base.context import NodeContext
from swarm.node.base.looking import until_readable
from swarm.node.sharing.admission import Admission, AssignedQuestions
from swarm.node.sharing.selection import NOT_ITS_OWN
from swarm.node.sharing.verification import TaskSource, verify
from swarm.records.listing import nodes_in
from swarm.store.run import Run
from swarm.types import RolloutGroup, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.codec import Claims, decode, to_claims, to_groups
from swarm.wire.group_files import put_together
from swarm.wire.messages import RolloutFile

MOST_TRIES = 16
"""Times that what lies at one name is read, each time something else, until it is a file that can be taken."""
GONE = "gone"
"""Instead of a reason for which a file was refused."""
MISSING = "missing_part"
MAY_COME_YET = NOT_ITS_OWN | {MISSING}
"""What is wrong with a file of one group while its author's may not have arrived."""


@dataclass(frozen=True)
class Reading:
    """One file, as it was when it was read."""

    tag: str
    """Its version, by the store."""
    size: int
    """Bytes, those of the groups that it names included."""
    again: int = 0
    """How often something else had lain there before, and was read."""
    refused: str = ""
    """Why it is no file that can be taken. It may be a stranger's: what comes in its place is read as if first."""

    @property
    def may_be_read_again(self) -> bool:
        """Should its tag be another one: what was taken once stays as it was."""
        return bool(self.refused) and self.again < MOST_TRIES - 1


class PeersFile(NamedTuple):
    """Holds the contents of a peer's rollout file."""

    groups: list[RolloutGroup]
    claims: list[Claims]
    """One per group."""
    timestamp: float
    """When it was published, by the peer's clock."""
    mixture: Mapping[str, float] | UnsetType = UNSET
    """Mixture as it says."""


class Fetched(NamedTuple):
    """Holds the outcome of reading a file."""

    reading: Reading
    file: PeersFile | ProtocolError | None
    """The error: it is refused; None: nothing is there any more."""


class PeersFiles:
    """The rollout files of one run, as one node's settings have them read."""

    def __init__(self, settings: Settings, run: Run) -> None:
        self._run = run
        self._limit = settings.limits.max_file_bytes
        self._most_groups = settings.limits.peer_groups
        self._keep_tokens = settings.token_weight_cap > 0  # else they need not be held in memory

    def fetch(self, key: RoundKey, peer: str, tag: str = "") -> Fetched:
        """Read a file, and the groups that it names. Raises StoreError as Store.get does.

        Args:
            tag: as it was listed; what cannot be read at all is known by that, also what is gone since: a file that was
                deleted, or an obstacle that its author moved out of the way of the file.
        """
        reading = Reading(tag, 0)
        try:
            blob = self._run.store.get(keys.rollout(key, peer), self._limit)
            reading = Reading(blob.tag, len(blob.data))
            file = self._decoded(key, peer, blob.data)
        except FileNotFoundError:
            return Fetched(replace(reading, refused=GONE if tag else "not_a_file"), None)
        except ProtocolError as error:
            return Fetched(replace(reading, refused=error.reason), error.as_value())
        return self._whole(key, peer, file, reading)

    def _whole(self, key: RoundKey, peer: str, file: RolloutFile, reading: Reading) -> Fetched:
        sizes = [reading.size]

        def get(place: str, most: int) -> bytes:
            blob = self._run.store.get(place, most)
            sizes.append(len(blob.data))
            self._run.trust.check(blob.data, place)
            return blob.data

        limits = {"most_bytes": self._limit - reading.size, "most_groups": self._most_groups}
        try:
            whole = put_together(file, peer, key, get, **limits)
            groups = to_groups(whole, peer, key, with_tokens=self._keep_tokens)
        except ProtocolError as error:
            may_come = file.earlier and error.reason in MAY_COME_YET
            tag = "" if may_come else reading.tag  # then it is read again, whatever its own tag
            refused = Reading(tag, sum(sizes), refused=error.reason)
            return Fetched(refused, error.as_value())
        read = PeersFile(groups, to_claims(whole), file.timestamp, file.mixture)
        return Fetched(replace(reading, size=sum(sizes)), read)

    def _decoded(self, key: RoundKey, peer: str, data: bytes) -> RolloutFile:
        """Decodes a file by its form, once its signature is what this node asks for. Raises ProtocolError: as
        Trust.check, decode."""
        place = keys.rollout(key, peer)
        where = self._run.store.describe(place)
        self._run.trust.check(data, place)
        file = decode(data, RolloutFile, where)
        if not math.isfinite(file.timestamp):
            raise ProtocolError("malformed", f"{where} has no finite timestamp")
        return file


def gone(what: str) -> ProtocolError:
    """Makes the error for what is not in the place any longer, or not yet; it never refuses anybody's file."""
    return ProtocolError(reason=GONE, detail=what)


class PublishedGroups:
    """Reads what the nodes of a run published, as one of them sees it. It waits while the store refuses."""

    def __init__(self, ctx: NodeContext, assigned: AssignedQuestions) -> None:
        self._ctx = ctx
        self._universe = assigned.universe
        self._files = PeersFiles(ctx.settings, ctx.run)
        self._admission = Admission(ctx.settings, assigned)
        self.bytes_read = 0
        """Bytes of all files so far."""

    async def nodes(self, key: RoundKey) -> frozenset[str]:
        """Returns the nodes whose file for a stage is there."""
        return frozenset(await until_readable(self._ctx, nodes_in, self._ctx.run.store, keys.rollouts(key)))

    async def admitted(
        self, peer: str, key: RoundKey, slots: Set[int] | None = None
    ) -> list[tuple[RolloutGroup, Claims]]:
        """Returns the groups in these slots of a file, or all of it.

        Raises:
            ProtocolError: `gone`, or why the file, or the first of these groups, is refused.
        """
        file = await self._file_of(peer, key)
        pairs = zip(file.groups, file.claims, strict=True)
        wanted = [pair for pair in pairs if slots is None or pair[0].slot in slots]
        mixture = self._universe.mixture_said(file.mixture)
        groups = [group for group, _ in wanted]
        if refusal := next(filter(None, self._admission.refusals(peer, key, groups, mixture)), None):
            raise refusal
        return wanted

    async def _file_of(self, peer: str, key: RoundKey) -> PeersFile:
        fetched = await until_readable(self._ctx, self._files.fetch, key, peer)
        self.bytes_read += fetched.reading.size
        if fetched.file is None:
            raise gone(f"{self._ctx.run.store.describe(keys.rollout(key, peer))} is not there")
        if isinstance(fetched.file, ProtocolError):
            raise fetched.file
        self._admission.check_size(fetched.file.groups)
        return fetched.file


async def verified(source: TaskSource, wanted: Sequence[tuple[RolloutGroup, Claims]]) -> list[ScoredGroup]:
    """Returns groups with this node's own scores. Raises ProtocolError where one of them is refused."""
    found: list[ScoredGroup] = []
    groups, claims = [group for group, _ in wanted], [claim for _, claim in wanted]
    async for verdicts in verify(source, groups, claims, trusting=True):
        if refusal := next((verdict.refusal for verdict in verdicts if verdict.refusal), None):
            raise refusal
        found += [verdict.scored for verdict in verdicts if verdict.scored]
    return found
