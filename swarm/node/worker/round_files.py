"""Writes the files of a round through the write queue, in this order:

    completions, rollouts, row, reward, vote

The metrics row is the commit point of a round: a node that finds its row has done that round, whatever else a crash
took. So a row on disk implies rollouts and completions on disk, unless a full disk had the queue give them up, or the
node keeps no completions (own_groups.py).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import msgspec

from swarm.errors import StoreError
from swarm.node.base.submissions import has_submitted
from swarm.node.base.write_queue import Write
from swarm.node.worker.context import WorkerContext
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import CompletionsFile, RewardFile, RolloutFile, WinnersFile
from swarm.wire.metrics import MetricsRow

BYTES_PER_TOKEN = 32
"""Of a completions file, at most: a token id, a log-prob to its last digit, and two commas."""


class RoundFiles:
    """Of one node."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx

    def completions(self, file: CompletionsFile) -> None:
        """Have what was sampled written, without waiting for it; encoded off the event loop."""
        key = RoundKey(file.round, file.stage)
        place = keys.completions(file.round, self._ctx.node_id)
        sampled = [completion for group in file.groups for completion in group.completions]
        size = sum(len(c.text.encode()) + BYTES_PER_TOKEN * len(c.token_ids) for c in sampled)
        write = partial(self._encode_and_put, place, file)
        self._ctx.writes.add(Write("completions", key, write, size, droppable=True))

    def _encode_and_put(self, place: str, file: CompletionsFile) -> None:
        self._ctx.run.put_sealed(place, encode(file))

    async def rollouts(self, file: RolloutFile) -> int:
        """Give the groups to the peers; returns the bytes of the file."""
        key, data = RoundKey(file.round, file.stage), encode(file)
        await self._put("rollouts", key, keys.rollout(key, self._ctx.node_id), data, droppable=True)
        return len(data)

    async def row(self, row: MetricsRow) -> None:
        """The commit point."""
        write, size = partial(self._append, row), len(msgspec.json.encode(row))
        await self._ctx.writes.put(Write("row", RoundKey(row.round, row.stage), write, size, needed=True))

    def _append(self, row: MetricsRow) -> None:
        """Of a round whose rollouts no peer will ever see, the row says so."""
        if self._ctx.writes.gave_up_rollouts(RoundKey(row.round, row.stage)):
            row = msgspec.structs.replace(row, bytes_published=0)
        records = [msgspec.json.encode(row)]
        self._ctx.run.store.append_records(keys.metrics(self._ctx.node_id), records, durable=True)

    async def reward(self, row: MetricsRow, *, anew: bool = False) -> None:
        """Once per round: after a crash between the row and this, the next start makes up for it.

        Args:
            anew: the row was written just now, so that no reward can lie there; where requests are spared it is not
                looked for.
        """
        key, node = RoundKey(row.round, row.stage), self._ctx.node_id
        reward = RewardFile(
            round=row.round, stage=row.stage, reward=row.my_reward, peer_id=node, submitted_at=self._ctx.clock.wall()
        )
        data = encode(reward)
        anew = anew and self._ctx.settings.sparing
        await self._ctx.writes.put(Write("reward", key, partial(self._submit, key, data, anew), len(data)))

    def _submit(self, key: RoundKey, data: bytes, anew: bool) -> None:
        run, place = self._ctx.run, keys.reward(key, self._ctx.node_id)
        if anew or not has_submitted(run, key, self._ctx.node_id):
            run.put_sealed(place, data)
            return
        with suppress(StoreError):  # a kill may have come between the write and its sync
            run.store.sync(place)

    async def vote(self, key: RoundKey, winners: list[str]) -> None:
        """Who was best, in this node's own scoring."""
        node = self._ctx.node_id
        vote = WinnersFile(round=key.round, winners=winners, peer_id=node, submitted_at=self._ctx.clock.wall())
        await self._put("vote", key, keys.winners(key.round, node), encode(vote), droppable=True, durable=False)

    async def _put(
        self, what: str, key: RoundKey, place: str, data: bytes, *, droppable: bool = False, durable: bool = True
    ) -> None:
        write = partial(self._ctx.run.put_sealed, place, data, durable)
        await self._ctx.writes.put(Write(what, key, write, len(data), droppable=droppable))
