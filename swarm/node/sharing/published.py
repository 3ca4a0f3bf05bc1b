"""Reads again what a node published for one stage: for redo, and for who needs the context of a later stage."""

from __future__ import annotations

from collections.abc import Sequence, Set

from swarm.errors import ProtocolError
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import until_readable
from swarm.node.sharing.admission import Admission
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.reading import GONE, PeersFile, PeersFiles
from swarm.node.sharing.verification import TaskSource, verify
from swarm.types import RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import Claims


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
        return frozenset((await until_readable(self._ctx, self._files.tags, key, frozenset[str]())).tags)

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

    async def verified(self, source: TaskSource, peer: str, key: RoundKey, slots: Set[int]) -> list[ScoredGroup]:
        """Returns the groups in these slots with this node's own scores. Raises ProtocolError as `admitted`, and where
        one of them is refused."""
        wanted = await self.admitted(peer, key, slots)
        return await verified(source, wanted)

    async def _file_of(self, peer: str, key: RoundKey) -> PeersFile:
        fetched = await until_readable(self._ctx, self._files.fetch, key, peer)
        self.bytes_read += fetched.reading.size
        if fetched.file is None:
            raise gone(f"{self._files.describe(key, peer)} is not there")
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
