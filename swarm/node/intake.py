"""What peers published, on its way into the swarm pool.

    listing ─new {peer}.json─▶ bounded read ─▶ decode ─▶ groups ─▶ regenerate, compare, score ─▶ pool ─▶ PeerArrived

All of it goes on while the executor computes. Whatever is wrong with a file is counted by reason, named in the log
once, and the file skipped; its peer still counts as heard, so that nobody waits for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from swarm.errors import FolderError, ProtocolError
from swarm.folder.fetch import list_nodes, read_bounded
from swarm.logs import get_logger
from swarm.node.clock import Clock
from swarm.node.timeline import Timeline
from swarm.protocol.codec import decode, to_groups
from swarm.protocol.layout import Layout
from swarm.protocol.messages import RolloutFile
from swarm.tasks.scoring import GroupScore
from swarm.tasks.scoring_messages import QuestionRequest
from swarm.types import Origin, Question, RolloutGroup, RoundKey, ScoredGroup

logger = get_logger(__name__)

GROUPS_AT_ONCE = 8
MOST_KILLED = 8
"""Answers of one file whose scoring had to be killed, at a second or two each, before the rest of it is refused."""
FILES_AT_ONCE = 1
"""Peers' files wait for each other, so that the own groups never wait behind more than a few others to be scored."""


class TaskSource(Protocol):
    """Questions and scores; swarm.tasks.scoring.Scorer gives them from bounded child processes."""

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        """The questions that were asked for, in order."""

    async def score(self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str]) -> GroupScore:
        """Score one group. Raises ProtocolError where the question is not what its origin gives."""


@dataclass
class Counts:
    """What came in between two metrics rows."""

    refused: Counter[str] = field(default_factory=Counter)
    """Files and groups, by reason."""
    killed: int = 0
    errors: int = 0
    bytes_fetched: int = 0
    latencies: list[float] = field(default_factory=list)
    """Per file: seconds from its timestamp to its arrival in the pool."""


class Intake:
    """The swarm pool of this node: verified groups of peers, by round and stage."""

    def __init__(
        self,
        *,
        layout: Layout,
        node_id: str,
        task_source: TaskSource,
        max_file_bytes: int,
        clock: Clock,
        on_arrival: Callable[[RoundKey, str], Awaitable[None]],
    ) -> None:
        self._layout = layout
        self._node_id = node_id
        self._task_source = task_source
        self._max_file_bytes = max_file_bytes
        self._clock = clock
        self._on_arrival = on_arrival
        self._limiter = anyio.CapacityLimiter(FILES_AT_ONCE)
        self._pool: dict[RoundKey, dict[str, list[ScoredGroup]]] = {}
        self._seen: set[tuple[RoundKey, str]] = set()
        self._oldest = RoundKey(0)
        self.activity = Timeline(clock.monotonic)
        """When files were read, verified or scored; the own publishing is counted in."""
        self._counts = Counts()

    async def look(self, keys: set[RoundKey], tasks: anyio.abc.TaskGroup) -> None:
        """List these rounds and take in what is new."""
        for key in sorted(keys):
            try:
                nodes = await to_thread.run_sync(list_nodes, self._layout.rollouts_of(key))
            except FolderError as error:
                logger.warning("rollouts.unlistable", error=str(error))
                continue
            for peer in sorted(nodes - {self._node_id}):
                if (key, peer) not in self._seen:
                    self._seen.add((key, peer))
                    tasks.start_soon(self._take, key, peer)

    def groups(self, key: RoundKey, peers: frozenset[str]) -> list[ScoredGroup]:
        """The verified groups of these peers for one round and stage."""
        return [scored for peer in sorted(peers) for scored in self._pool.get(key, {}).get(peer, [])]

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds, those still waiting to be read too; a daemon runs for weeks."""
        self._oldest = key
        self._pool = {k: groups for k, groups in self._pool.items() if k >= key}
        self._seen = {(k, peer) for k, peer in self._seen if k >= key}
        self.activity.forget_before(self._clock.monotonic())

    def take_counts(self) -> Counts:
        """What was counted since the last call."""
        taken, self._counts = self._counts, Counts()
        return taken

    async def _take(self, key: RoundKey, peer: str) -> None:
        async with self._limiter:
            if key < self._oldest:
                return
            with self.activity.running():
                groups = await self._verified(key, peer)
        if key >= self._oldest:
            self._pool.setdefault(key, {})[peer] = groups
            await self._on_arrival(key, peer)

    async def _verified(self, key: RoundKey, peer: str) -> list[ScoredGroup]:
        path = self._layout.rollout_file(key, peer)
        try:
            file, size = await to_thread.run_sync(_read, path, self._max_file_bytes)
            groups = to_groups(file, peer, key)
        except FileNotFoundError:
            return []  # deleted between listing and reading: retention at work
        except ProtocolError as error:
            self._refuse(key, peer, error)
            return []
        self._counts.bytes_fetched += size
        scored = await self._score(key, peer, groups)
        self._counts.latencies.append(self._clock.wall() - file.timestamp)
        accepted = [group for group in scored if group]
        logger.debug("peer.arrived", peer=peer, round=key.round, groups=len(accepted), bytes=size)
        return accepted

    async def _score(self, key: RoundKey, peer: str, groups: list[RolloutGroup]) -> list[ScoredGroup | None]:
        """A few groups at a time, so that the own ones wait for no whole file; none at all of a poisonous one."""
        scored: list[ScoredGroup | None] = []
        killed_before = self._counts.killed
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            part = groups[start : start + GROUPS_AT_ONCE]
            scores = await score_groups(self._task_source, part)
            scored += [self._counted(group, score) for group, score in zip(part, scores, strict=True)]
            if (killed := self._counts.killed - killed_before) > MOST_KILLED:
                self._refuse(key, peer, ProtocolError("poisonous", f"{killed} of its answers had to be killed"))
                return []
        return scored

    def _counted(self, group: RolloutGroup, score: GroupScore | ProtocolError) -> ScoredGroup | None:
        if isinstance(score, ProtocolError):
            self._refuse(RoundKey(group.round, group.stage), group.peer_id, score)
            return None
        self._counts.killed += score.killed
        self._counts.errors += score.errors
        return ScoredGroup(group, score.rewards, score.answered)

    def _refuse(self, key: RoundKey, peer: str, error: ProtocolError) -> None:
        self._counts.refused[error.reason] += 1
        logger.warning(
            "rollouts.refused", peer=peer, round=key.round, stage=key.stage, reason=error.reason, detail=error.detail
        )


async def score_groups(source: TaskSource, groups: Sequence[RolloutGroup]) -> list[GroupScore | ProtocolError]:
    """Verify and score groups at the same time, each with its own result or refusal, in order."""
    found: dict[int, GroupScore | ProtocolError] = {}

    async def score(position: int, group: RolloutGroup) -> None:
        texts = [completion.text for completion in group.completions]
        try:
            found[position] = await source.score(group.question.origin, group.question.prompt, texts)
        except ProtocolError as error:
            found[position] = error

    async with anyio.create_task_group() as tasks:
        for position, group in enumerate(groups):
            tasks.start_soon(score, position, group)
    return [found[position] for position in range(len(groups))]


def _read(path: Path, limit: int) -> tuple[RolloutFile, int]:
    data = read_bounded(path, limit)
    file = decode(data, RolloutFile, str(path))
    if not math.isfinite(file.timestamp):
        raise ProtocolError("malformed", f"{path} has no finite timestamp")
    return file, len(data)
