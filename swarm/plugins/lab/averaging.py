"""Averages the weights of a run's workers after every H-th round; AveragingMachine decides whose, and how long to wait.

    update of round r ─▶ own weights ─▶ weights/round_r/{node}.safetensors, durable, never replaced
                         look, fetch ─▶ a private copy ─▶ size, names, shapes, types, finite numbers? ─▶ fit or refused
                         Average ─────▶ trainer.average(copies in order of node ids) ─▶ row: node -> SHA-256

A node that was killed in between finds its own file, and averages that, whatever its update came to this time: its
peers may have averaged it. After its row it redoes the averaging with the very files that the row names.
Own files go when no worker needs their rounds any more to redo them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.looking import until_readable
from swarm.node.sharing.reading import gone
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.hooks import AfterAgain, Hooks, Peers, PluginHooks, nothing
from swarm.node.worker.steps import OpenedRound, PlayedRound, Seconds
from swarm.plugins.lab.averaging_machine import Average, AveragingMachine, Seen
from swarm.plugins.lab.settings import AVERAGING, LabSettings
from swarm.records.files import read_needs
from swarm.records.listing import rounds_in
from swarm.store.copies import Copies, Copy, private_copies
from swarm.types import Generator, RoundKey, Trainer
from swarm.wire import keys
from swarm.wire.metrics import MetricsRow

if TYPE_CHECKING:
    from swarm.plugins.lab.mean_weights import WeightAveraging  # of torch, which only trainers have

logger = get_logger(__name__)

HEADER = 2**16
"""Bytes that a file may have beyond the own one: headers name the same tensors, in another order and spelling."""
WAIT_SHARE = 0.5
"""Share of the round's interval, as for rollouts."""
SHORTEST_PAUSE = 0.05
"""Seconds between two looks, at first."""


class Averaged(NamedTuple):
    """Says what came of one averaging."""

    nodes: dict[str, str]
    """Node -> SHA-256 of the weights whose mean was taken."""
    published: int = 0
    """Bytes of the own weights."""
    fetched: int = 0
    """Bytes of the peers'."""


def joined() -> PluginHooks:
    """Returns what a node does that averages."""
    return PluginHooks(rounds=_hooks)


def _hooks(ctx: WorkerContext, _: Generator, trainer: Trainer) -> Hooks:
    averaging = Averaging(ctx, trainer)
    return Hooks(
        after_update=(averaging.average,), columns=(averaging.fill,), again=(averaging.again,), redone=("averaged",)
    )


class Averaging:
    """Averages one worker's weights with those of the others, where that is due."""

    def __init__(self, ctx: WorkerContext, trainer: Trainer) -> None:
        self._ctx = ctx
        self._trainer = trainer
        self._refused: Counter[str] = Counter()
        self._limit = HEADER
        """Bytes of a file, at most."""
        self._averaged: Averaged | None = None
        """After the update in hand; None: none was due."""

    @property
    def _part(self) -> WeightAveraging:
        """Returns the part of the trainer that averages: each of its methods blocks, and is called in the compute
        thread."""
        part: WeightAveraging = self._trainer.part(AVERAGING)
        return part

    def is_due(self, key: RoundKey) -> bool:
        """Tells whether weights are averaged after this stage of this round."""
        settings = self._ctx.settings
        last_stage = key.stage == settings.max_stages - 1
        every = settings.of(LabSettings).average_every
        return bool(every and settings.trains and last_stage and (key.round + 1) % every == 0)

    # ── a round as it is lived ──────────────────────────────────────────────────────────────────────────────────────
    async def average(self, opened: OpenedRound, seconds: Seconds, peers: Peers) -> None:
        """Publish the own weights, wait for the others', and take the mean, if it is due after this round."""
        self._averaged = None
        if not self.is_due(opened.key):
            return
        self._averaged, round_ = Averaged({}), opened.key.round
        with self._ctx.timed(seconds, "average"), private_copies() as folder:
            if (own := await self._published(round_, folder)) is None:
                return
            self._averaged = Averaged({}, own.size)
            decision, copies = await self._gathered(round_, folder, own, peers)
            self._tell(round_, decision)
            averaged = {node: copies[node] for node in decision.nodes}
            if averaged:
                files = [copy.file for copy in averaged.values()]
                await self._ctx.compute.run(partial(self._part.average, files))
            digests = {node: copy.sha256 for node, copy in averaged.items()}
            fetched = sum(copy.size for node, copy in copies.items() if node != self._ctx.node_id)
            self._averaged = Averaged(digests, own.size, fetched)
        await self._ctx.blocking.run(self._prune, round_)

    def fill(self, row: MetricsRow, played: PlayedRound) -> None:
        """Tells whose weights were averaged, what that took, and how many files were refused since the row before."""
        taken, self._refused = self._refused, Counter()
        row.refused_files = dict(Counter(row.refused_files) + taken)
        if self._averaged is None:
            return
        row.averaged, row.seconds_average = self._averaged.nodes, played.seconds.get("average", 0.0)
        row.bytes_published += self._averaged.published
        row.bytes_fetched += self._averaged.fetched

    async def _published(self, round_: int, folder: Copies) -> Copy | None:
        """Returns the own weights as they lie in the shared place; None: they cannot be there."""
        data = await self._ctx.compute.run(self._part.export_weights)
        self._limit = len(data) + HEADER
        try:
            await self._ctx.blocking.run(self._put, round_, data)
            own = await self._ctx.blocking.run(self._copied, self._ctx.node_id, round_, folder)
        except (StoreError, ProtocolError, FileNotFoundError) as error:
            logger.warning("weights.unpublished", round=round_, error=str(error), effect="the node keeps its own")
            return None
        if own.sha256 != hashlib.sha256(data).hexdigest():
            logger.info("weights.taken_up", round=round_, effect="what was published before a kill is averaged")
        return own

    def _put(self, round_: int, data: bytes) -> None:
        """Unless a former life has: peers may have averaged that."""
        place, store = keys.weights(round_, self._ctx.node_id), self._ctx.run.store
        if store.stat(place) is None:
            store.put(place, data)
        else:
            store.sync(place)

    async def _gathered(self, round_: int, folder: Copies, own: Copy, peers: Peers) -> tuple[Average, dict[str, Copy]]:
        settings, clock, me = self._ctx.settings, self._ctx.clock, self._ctx.node_id
        until = clock.monotonic() + settings.round_interval * WAIT_SHARE
        machine = AveragingMachine(me, settings.expected_count, settings.expected_names, until)
        copies, there, refused, pause = {me: own}, set[str](), set[str](), SHORTEST_PAUSE
        while True:
            known, live = peers.known(), peers.live()
            there |= await self._looked_for(round_, machine.to_look_for(known, live, there))
            seen = Seen(clock.monotonic(), known, live, there, copies.keys(), refused, peers.stopping())
            for node in machine.to_fetch(seen):
                await self._take_in(node, round_, folder, copies, refused)
            if decision := machine.look(seen):
                return decision, copies
            await clock.sleep(pause)
            pause = min(2 * pause, max(pause, settings.cadence.reconcile_interval))

    async def _looked_for(self, round_: int, nodes: Sequence[str]) -> set[str]:
        """Looks for nodes with a file; what the place refuses for now is not there yet."""

        def find() -> set[str]:
            found = set[str]()
            for node in nodes:
                try:
                    if self._ctx.run.store.stat(keys.weights(round_, node)):
                        found.add(node)
                except (StoreError, ProtocolError):
                    continue
            return found

        return await self._ctx.blocking.run(find)

    async def _take_in(
        self, node: str, round_: int, folder: Copies, copies: dict[str, Copy], refused: set[str]
    ) -> None:
        try:
            copy = await self._ctx.blocking.run(self._copied, node, round_, folder)
            await self._ctx.compute.run(partial(self._part.refuse_weights, copy.file))
        except ProtocolError as error:
            refused.add(node)
            self._refused[error.reason] += 1
            logger.warning("weights.refused", peer=node, round=round_, reason=error.reason, detail=error.detail)
        except (StoreError, FileNotFoundError):
            return  # it is looked for again
        else:
            copies[node] = copy

    def _copied(self, node: str, round_: int, folder: Copies) -> Copy:
        """Raises FileNotFoundError, ProtocolError, StoreError."""
        return folder.fetch(self._ctx.run.store, keys.weights(round_, node), node, self._limit)

    def _tell(self, round_: int, decision: Average) -> None:
        if decision.missing or decision.short:
            missing = {"missing": list(decision.missing), "unknown": decision.short}
            logger.warning("weights.missing", round=round_, **missing, effect="the mean is that of the others")
        if not decision.nodes:
            logger.warning("weights.not_averaged", round=round_, why="this node is none of the expected workers")
        else:
            logger.info("weights.averaged", round=round_, nodes=list(decision.nodes))

    def _prune(self, round_: int) -> None:
        """Remove own files of rounds that no worker may have to redo."""
        store = self._ctx.run.store
        try:
            needed = min((need.files for need in read_needs(self._ctx.run)), default=0)
            for old in rounds_in(store, keys.WEIGHTS):
                if old < min(needed, round_):
                    store.remove(keys.weights(old, self._ctx.node_id))
        except StoreError as error:
            logger.warning("weights.not_removed", round=round_, error=str(error))

    # ── a round as it was lived ─────────────────────────────────────────────────────────────────────────────────────
    @asynccontextmanager
    async def again(self, row: MetricsRow) -> AsyncIterator[AfterAgain]:
        """Gets the files that were averaged after a round, for the block, and gives what averages them once more.

        Raises:
            ProtocolError: `gone`: one of them is not there any more, or is another one.
        """
        if row.averaged is UNSET or not row.averaged:
            yield nothing
            return
        self._limit = len(await self._ctx.compute.run(self._part.export_weights)) + HEADER
        with private_copies() as folder:
            files = [await self._fetched_again(node, row, folder) for node in sorted(row.averaged)]

            async def average(_: int) -> None:
                await self._ctx.compute.run(partial(self._part.average, files))

            yield average

    async def _fetched_again(self, node: str, row: MetricsRow, folder: Copies) -> str:
        assert row.averaged is not UNSET
        if not keys.is_node_id(node):
            raise gone(f"{node!r} is no node")
        try:
            copy = await until_readable(self._ctx, self._copied, node, row.round, folder)
        except FileNotFoundError:
            raise gone(f"the weights of {node} after round {row.round} are not there any more") from None
        if copy.sha256 != row.averaged[node]:
            raise gone(f"the weights of {node} after round {row.round} are others than those that were averaged")
        return copy.file
