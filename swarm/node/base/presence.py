"""A node's registration and heartbeat in `peers/{node}.json`.

One live process per node id: the second one refuses to start. There is no lock on a replicated folder, so this is
settled by what can be read: on one machine by the process id, else by watching whether the heartbeat moves; two that
slipped in at the same moment notice each other by their incarnation, and the one that registered later gives way.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field

import anyio
from anyio import to_thread

from swarm.errors import DuplicateNodeError, StoreError
from swarm.logs import begin_files, get_logger
from swarm.node.base.clock import Clock
from swarm.node.base.host import host_identity, is_running, process_started_at
from swarm.records.liveness import STARTING, STOPPED
from swarm.records.read import read_peer
from swarm.store.folder.publish import publish
from swarm.wire.codec import encode
from swarm.wire.layout import Layout
from swarm.wire.messages import PeerFile

logger = get_logger(__name__)

PROOF_BEATS = 3
"""How many heartbeat intervals an unmoving file of another machine is watched before its id counts as free."""


async def is_alive(layout: Layout, holder: PeerFile, interval: float) -> bool:
    """Whether the process that wrote a registration still runs: by its process id on this machine, else by its beat.

    Args:
        interval: seconds between heartbeats; watching one of another machine takes a few of them.
    """
    if holder.status == STOPPED:
        return False
    if holder.host == host_identity():
        return is_running(holder.pid, holder.process_started_at)
    for _ in range(PROOF_BEATS):
        await anyio.sleep(interval)
        now = await to_thread.run_sync(read_peer, layout, holder.peer_id)
        if now and (now.incarnation, now.beat) != (holder.incarnation, holder.beat):
            return now.status != STOPPED
    return False


def _machine(peer: PeerFile) -> str:
    return peer.host.partition("/")[0] or "an unknown machine"


@dataclass
class Presence:
    """This process's own registration."""

    layout: Layout
    node_id: str
    role: str
    interval: float
    clock: Clock
    model: str = ""
    status: str = STARTING
    round: int = -1
    stage: int = 0
    phase: str = ""
    _incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    _registered_at: float = 0.0
    _beat: int = 0
    _gave_way: bool = False

    @property
    def claim(self) -> tuple[float, str]:
        """Of two processes that want the same thing, the one with the smaller claim has it."""
        return self._registered_at, self._incarnation

    async def register(self) -> None:
        """Take the node id.

        Raises:
            DuplicateNodeError: a live process has it.
            StoreError: the folder cannot be written.
        """
        holder = await to_thread.run_sync(read_peer, self.layout, self.node_id)
        if holder and await is_alive(self.layout, holder, self.interval):
            raise DuplicateNodeError(
                f"node id {self.node_id!r} is taken in experiment {self.layout.experiment!r}: process {holder.pid} on "
                f"{_machine(holder)}, a {holder.node_role}, is alive; stop it or choose another NODE_ID"
            )
        self._registered_at = self.clock.wall()
        await self.beat()
        begin_files(self.node_id)  # not before: they may have been another process's

    async def beat(self) -> None:
        """Write one heartbeat."""
        self._beat += 1
        await to_thread.run_sync(self._write)

    def _write(self) -> None:
        data = encode(
            PeerFile(
                peer_id=self.node_id,
                registered_at=self._registered_at,
                node_role=self.role,
                beat=self._beat,
                last_seen=self.clock.wall(),
                status=self.status,
                round=self.round,
                stage=self.stage,
                phase=self.phase,
                incarnation=self._incarnation,
                host=host_identity(),
                pid=os.getpid(),
                process_started_at=process_started_at(os.getpid()),
                model=self.model,
            )
        )
        target = self.layout.peer_file(self.node_id)
        publish(
            target,
            self.layout.trust.seal(data, self.layout.key(target)),
            self.layout.temporary(self.node_id),
            durable=False,
        )

    async def keep_beating(self) -> None:
        """Heartbeats until cancelled. A beat that cannot be written is logged; the next one tries again.

        Raises:
            DuplicateNodeError: another process took the id and has the older claim.
        """
        failing = False
        while True:
            await anyio.sleep(self.interval)
            self._give_way(await to_thread.run_sync(read_peer, self.layout, self.node_id))
            try:
                await self.beat()
            except StoreError as error:
                if not failing:
                    logger.warning("heartbeat.failed", error=str(error))
                failing = True
            else:
                failing = False

    def _give_way(self, written: PeerFile | None) -> None:
        if written is None or written.incarnation == self._incarnation or written.status == STOPPED:
            return
        if (written.registered_at, written.incarnation) < self.claim:
            self._gave_way = True
            raise DuplicateNodeError(
                f"node id {self.node_id!r} is used by two processes: process {written.pid} on "
                f"{_machine(written)} registered first; this one ends"
            )

    async def leave(self) -> None:
        """Say goodbye, so that nobody waits for this node."""
        if self._gave_way:
            return  # the file speaks for the other process now
        self.status = STOPPED
        with anyio.CancelScope(shield=True):
            try:
                await self.beat()
            except StoreError as error:
                logger.warning("heartbeat.failed", error=str(error))
