"""Writes the files of a round through the write queue, in this order:

    (single groups,) completions, rollouts, row, reward, vote

The metrics row is the commit point of a round: a node that finds its row has done that round, whatever else a crash
took. So a row on disk implies rollouts and completions on disk, unless a full disk had the queue give them up, or the
node keeps no completions (own_groups.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from swarm.errors import StoreError
from swarm.node.base.log_once import until_readable
from swarm.node.base.submissions import has_submitted
from swarm.node.base.write_queue import Write
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.steps import Sampled
from swarm.records.listing import COPIED_TOGETHER
from swarm.records.liveness import EVALUATOR
from swarm.types import Generator, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.group_files import digest
from swarm.wire.messages import CompletionsFile, PolicyInfo, RewardFile, RolloutFile, WinnersFile
from swarm.wire.metrics import MetricsRow

BYTES_PER_TOKEN = 32
"""Bytes of a completions file, at most: a token id, a log-prob to its last digit, and two commas."""


class RoundFiles:
    """Writes the files of one node's rounds through its write queue."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx

    def completions(self, file: CompletionsFile) -> None:
        """Have what was sampled written, without waiting for it; encoded off the event loop."""
        key = RoundKey(file.round, file.stage)
        place = keys.completions(file.round, self._ctx.node_id, file.stage)
        sampled = [turn for group in file.groups for completion in group.completions for turn in completion.every_turn]
        size = sum(len(c.text.encode()) + BYTES_PER_TOKEN * len(c.token_ids) for c in sampled)
        write = partial(self._encode_and_put, place, file)
        self._ctx.writes.add(Write("completions", key, write, size, droppable=True))

    def _encode_and_put(self, place: str, file: CompletionsFile) -> None:
        self._ctx.run.put_sealed(place, encode(file))

    async def rollouts(self, file: RolloutFile) -> int:
        """Give the groups to the peers; returns the bytes of the file."""
        key, data = RoundKey(file.round, file.stage), encode(file)
        write = partial(self._put_unless_given_up, key, keys.rollout(key, self._ctx.node_id), data)
        await self._ctx.writes.put(Write("rollouts", key, write, len(data), droppable=True))
        return len(data)

    def _put_unless_given_up(self, key: RoundKey, place: str, data: bytes) -> None:
        """Puts a file, unless its rollouts were given up: no file names a group that was given up."""
        if not self._ctx.writes.gave_up_rollouts(key):
            self._ctx.run.put_sealed(place, data)

    def early(self, file: RolloutFile, slot: int) -> tuple[str, int]:
        """Give one group to the peers before the others, without waiting for it or its disk: those that wait for the
        file would. Returns its SHA-256 and its bytes."""
        key, node = RoundKey(file.round, file.stage), self._ctx.node_id
        place = keys.group_file(key, node, slot)
        data = self._ctx.run.trust.seal(encode(file), place)
        write = partial(self._ctx.run.store.put, place, data, durable=False)
        self._ctx.writes.add(Write("rollouts", key, write, len(data), droppable=True))
        return digest(data), len(data)

    def keep_early(self, key: RoundKey, slots: Iterable[int]) -> None:
        """Have what was published early on disk before the file that names it: a power cut must not leave the name of a
        group that it takes."""
        places = [keys.group_file(key, self._ctx.node_id, slot) for slot in slots]
        self._ctx.writes.add(Write("rollouts", key, partial(self._sync, places), 0, droppable=True))

    def _sync(self, places: Iterable[str]) -> None:
        for place in places:
            with suppress(StoreError):  # it was given up, or taken away
                self._ctx.run.store.sync(place)

    async def row(self, row: MetricsRow) -> None:
        """The commit point."""
        write, size = partial(self._append, row), len(msgspec.json.encode(row))
        await self._ctx.writes.put(Write("row", RoundKey(row.round, row.stage), write, size, needed=True, row=row))

    def _append(self, row: MetricsRow) -> None:
        """Appends a row to the node's metrics; one whose rollouts no peer will ever see says that 0 bytes were
        published."""
        if self._ctx.writes.gave_up_rollouts(RoundKey(row.round, row.stage)):
            row = msgspec.structs.replace(row, bytes_published=0)
        records = [msgspec.json.encode(row)]
        self._ctx.run.store.append_records(keys.metrics(self._ctx.node_id), records, durable=True)

    async def submit(self, row: MetricsRow, winners: list[str]) -> None:
        """The reward that the coordinator waits for, and after the round's last stage the vote: who was best in it, in
        this node's own scoring.

        Where requests are spared the reward holds the vote, and is not looked for first: none can lie there, for the
        row was written just now.
        """
        key, node = RoundKey(row.round, row.stage), self._ctx.node_id
        is_evaluator = self._ctx.settings.role == EVALUATOR
        if self._ctx.settings.sparing and not is_evaluator:
            await self._put("reward", key, keys.reward(key, node), encode(self._reward(row, winners)))
            return
        if not is_evaluator:  # it has answered nothing, and votes alone
            await self.reward(row)
        if key.stage + 1 < self._ctx.settings.max_stages:
            return  # the vote is on the round
        vote = WinnersFile(round=key.round, winners=winners, peer_id=node, submitted_at=self._ctx.clock.wall())
        await self._put("vote", key, keys.winners(key.round, node), encode(vote), droppable=True, durable=False)

    async def make_up(self, rows: Sequence[MetricsRow]) -> None:
        """Submit the rewards that stand behind the last rows and were never written.

        A crash between a row and its reward leaves one. A full disk leaves more: at the end rows go first; so does a
        copy that broke off, and there rewards may lie between those that lack.
        """
        for row in await until_readable(self._ctx, self._without_reward, rows):
            await self.reward(row)

    def _without_reward(self, rows: Sequence[MetricsRow]) -> list[MetricsRow]:
        """Returns the rows without a reward, in order; always the last one, whose reward may be there and on no disk
        yet.

        Where the last one has its reward the others have theirs. Else the rows before it are looked through, up to
        COPIED_TOGETHER in a row of which none lacks.
        """
        if not rows or has_submitted(self._ctx.run, rows[-1].key, self._ctx.node_id):
            return [*rows[-1:]]
        lacking, before = [rows[-1]], rows[:-1]
        while before:
            before, some = before[:-COPIED_TOGETHER], before[-COPIED_TOGETHER:]
            found = [row for row in some if not has_submitted(self._ctx.run, row.key, self._ctx.node_id)]
            if not found:
                break
            lacking = [*found, *lacking]
        return lacking

    async def reward(self, row: MetricsRow) -> None:
        """Once per round."""
        key, data = RoundKey(row.round, row.stage), encode(self._reward(row))
        await self._ctx.writes.put(Write("reward", key, partial(self._submit, key, data), len(data)))

    def _reward(self, row: MetricsRow, winners: list[str] | UnsetType = UNSET) -> RewardFile:
        return RewardFile(
            round=row.round,
            stage=row.stage,
            reward=row.my_reward,
            peer_id=self._ctx.node_id,
            submitted_at=self._ctx.clock.wall(),
            winners=winners,
        )

    def _submit(self, key: RoundKey, data: bytes) -> None:
        run, place = self._ctx.run, keys.reward(key, self._ctx.node_id)
        if not has_submitted(run, key, self._ctx.node_id):
            run.put_sealed(place, data)
            return
        with suppress(StoreError):  # a kill may have come between the write and its sync
            run.store.sync(place)

    async def _put(
        self, what: str, key: RoundKey, place: str, data: bytes, *, droppable: bool = False, durable: bool = True
    ) -> None:
        write = partial(self._ctx.run.put_sealed, place, data, durable)
        await self._ctx.writes.put(Write(what, key, write, len(data), droppable=droppable))


def to_rollouts(
    ctx: WorkerContext,
    generator: Generator,
    sampled: Sampled,
    groups: Sequence[ScoredGroup],
    timestamp: float,
    earlier: Mapping[int, str] | None = None,
) -> RolloutFile:
    """Makes a rollout file of groups with what this node says of its policy, changed by the hooks before publishing."""
    settings = ctx.settings
    policy = PolicyInfo(
        model=generator.name,
        rounds_trained=sampled.rounds_trained,
        tokenizer=generator.tokenizer if settings.publish_logprobs else "",
        temperature=settings.temperature,
        licence=settings.terms.licence or UNSET,
        consent=settings.terms.consent or UNSET,
    )
    file = to_rollout_file(
        groups,
        ctx.node_id,
        sampled.key,
        timestamp,
        policy,
        with_logprobs=settings.publish_logprobs,
        earlier=earlier,
        mixture=ctx.mixture and ctx.mixture.weights,
    )
    for hook in ctx.plugin_hooks.before_publishing:
        file = hook.change(file)
    return file
