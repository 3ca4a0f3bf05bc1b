"""A node of the swarm that is no worker of ours: registers, beats, follows the clock, and does its own thing per round.

python -m tests.adversaries.stranger liar vandal        a node of each name, with a worker's settings in the environment
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from swarm.config import Settings, load_settings
from swarm.errors import ProtocolError, StoreError
from swarm.node.sharing.admission import AssignedQuestions
from swarm.records.files import read_state
from swarm.tasks.scoring import Scorer
from swarm.tasks.universe import universe_of
from swarm.types import Question, RoundKey
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile, RewardFile
from tests.layout import Layout

POLL_SECONDS = 0.05


class Stranger:
    """What every kind of adversary can do."""

    def __init__(self, settings: Settings, scorer: Scorer) -> None:
        self.settings = settings
        self.node_id = str(settings.node_id)
        self.layout = Layout(settings.shared_folder, settings.experiment)
        self._scorer = scorer
        self._beats = 0
        self._incarnation = uuid.uuid4().hex

    async def live(self, act: Callable[[Stranger, RoundKey], Awaitable[None]]) -> None:
        """Until the experiment is finished: `act` once in each round that is seen open."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat_on)
            done = RoundKey(-1)
            while True:
                key = self._open_round()
                if key == RoundKey(self.settings.max_rounds):
                    break
                if key is not None and key > done:
                    done = key
                    await act(self, key)
                await anyio.sleep(POLL_SECONDS)
            tasks.cancel_scope.cancel()

    def _open_round(self) -> RoundKey | None:
        with suppress(ProtocolError):
            state = read_state(self.layout.run)
            if state and not state.held and state.round <= self.settings.max_rounds:
                return RoundKey(state.round, state.stage)
        return None

    async def _beat_on(self) -> None:
        while True:
            self._beats += 1
            peer = PeerFile(
                peer_id=self.node_id,
                registered_at=time.time(),
                node_role="worker",
                beat=self._beats,
                last_seen=time.time(),
                incarnation=self._incarnation,
                model="stranger",
            )
            await self.write(self.layout.peer_file(self.node_id), encode(peer))
            await anyio.sleep(self.settings.cadence.heartbeat_interval)

    async def write(self, target: anyio.Path | os.PathLike[str], data: bytes) -> None:
        """As an honest node would, without fsync; what is in the way is somebody's prank."""
        with suppress(StoreError):
            await to_thread.run_sync(lambda: self.layout.put(Path(target), data, self.node_id, durable=False))

    async def submit(self, key: RoundKey, reward: float) -> None:
        """Claim a reward, so that nobody waits."""
        file = RewardFile(
            round=key.round, stage=key.stage, reward=reward, peer_id=self.node_id, submitted_at=time.time()
        )
        await self.write(self.layout.reward_file(key, self.node_id), encode(file))

    async def questions(self, key: RoundKey) -> Sequence[Question]:
        """Those that this node would ask itself, drawn as every honest node draws them."""
        settings = self.settings
        assigned = AssignedQuestions(settings.seed, universe_of(settings))
        return await self._scorer.make(assigned.questions(self.node_id, key, settings.local_groups))


async def _main(*kinds: str) -> None:
    from tests.adversaries.kinds import KINDS

    settings = load_settings({}, os.environ)
    async with Scorer() as scorer, anyio.create_task_group() as tasks:
        for kind in kinds:
            tasks.start_soon(Stranger(replace(settings, node_id=kind), scorer).live, KINDS[kind])


if __name__ == "__main__":
    anyio.run(_main, *sys.argv[1:])
