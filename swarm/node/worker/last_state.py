"""Keeps what a node saves of itself in its user's own state folder, because its place takes no more.

    place refuses the last rows or the last checkpoint ─▶ keep ─▶ {kept}/experiments/{experiment}-{digest}/
    next start ─▶ take_up: is it newer than the place's? ─▶ rows to the place, weights from here ─▶ Saver: a checkpoint
    in the place ─▶ let_go

What is kept is an ordinary place, with one checkpoint of this node and the rows that were not written. The digest is of
when and by whom the experiment was made, so that another one of its name, there or elsewhere, is never taken for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from swarm.errors import CheckpointError, ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.worker.checkpoints import STATE, own_rounds, read_state, save_checkpoint
from swarm.records.files import read_experiment
from swarm.records.rows import read_own_rows
from swarm.store.base import Store
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.types import RoundKey, Snapshot
from swarm.wire import keys
from swarm.wire.messages import NodeState
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


class LastState:
    """Keeps one node's state in its user's own folder while the place takes no more. Blocking."""

    def __init__(self, ctx: NodeContext) -> None:
        self._ctx = ctx
        self._opened: Run | None = None

    def keep(self, state: NodeState, snapshot: Snapshot, rows: Sequence[MetricsRow]) -> str:
        """Write it, in the place of what was kept before; says where it is.

        Raises:
            StoreError, CheckpointError: it cannot be written there either, or nobody knows whose state it would be.
        """
        run, node = self._run(), self._ctx.node_id
        if run is None:
            raise StoreError("what this experiment is cannot be read, so its state could never be recognised")
        run.store.remove(keys.metrics(node))
        _append(run, node, rows)
        return save_checkpoint(run.store, state, snapshot, keep=1)

    def take_up(self) -> Run | None:
        """Returns the run that was kept, if it is newer than what the place has, once the rows that the place lacked
        are there.

        Raises:
            StoreError: the place cannot be read, or takes no rows yet.
        """
        node, store = self._ctx.node_id, self._ctx.run.store
        run = self._run()
        kept = own_rounds(run.store, node) if run else []
        if run is None or not kept or kept[-1] <= _newest_saved(store, node):
            return None
        there = {row.key for row in read_own_rows(self._ctx.run, node).rows}
        lacking = [row for row in read_own_rows(run, node).rows if row.key > max(there, default=RoundKey(-1))]
        _append(self._ctx.run, node, lacking)
        where = run.store.describe(keys.checkpoint(kept[-1], node))
        logger.info("checkpoint.taken_up", folder=where, rounds_done=kept[-1], rows=len(lacking))
        return run

    def let_go(self) -> None:
        """The place has it, or something newer."""
        if self._opened is None:
            return
        with suppress(StoreError, ProtocolError):
            for rounds_done in own_rounds(self._opened.store, self._ctx.node_id):
                self._opened.store.remove_prefix(keys.checkpoint(rounds_done, self._ctx.node_id))
            self._opened.store.remove(keys.metrics(self._ctx.node_id))

    def _run(self) -> Run | None:
        """Returns where this node's state of this experiment is kept; None: nowhere, or nobody knows which experiment
        it is."""
        if self._opened is None and self._ctx.kept:
            with suppress(ProtocolError, StoreError):
                if made := read_experiment(self._ctx.run):
                    said = f"{made.experiment_name}\0{made.created_at!r}\0{made.created_by}".encode()
                    digest = hashlib.blake2b(said, digest_size=8).hexdigest()
                    name = f"{self._ctx.run.experiment}-{digest}"
                    self._opened = open_place(self._ctx.kept).open(name, writer=self._ctx.node_id)
        return self._opened


def _newest_saved(store: Store, node: str) -> int:
    """Returns the rounds behind the newest checkpoint that says of itself what its path says: a folder is made by
    anybody."""
    for rounds_done in reversed(own_rounds(store, node)):
        prefix = keys.checkpoint(rounds_done, node)
        with suppress(CheckpointError, ProtocolError, FileNotFoundError), store.open_bundle(prefix) as folder:
            return read_state(f"{folder}/{STATE}", store.describe(prefix), node, rounds_done).rounds_done
    return 0


def _append(run: Run, node: str, rows: Sequence[MetricsRow]) -> None:
    if rows:
        run.store.append_records(keys.metrics(node), [msgspec.json.encode(row) for row in rows], durable=True)


def say_kept(last: LastState, state: NodeState, snapshot: Snapshot, rows: Sequence[MetricsRow]) -> None:
    """Keep it, and say where it is, or why it is lost."""
    try:
        where = last.keep(state, snapshot, rows)
    except (StoreError, CheckpointError) as error:
        logger.error("checkpoint.lost", rounds_done=state.rounds_done, error=str(error))
    else:
        again = "start this node again once its place takes files: it goes on from there"
        logger.warning("checkpoint.kept", folder=where, rounds_done=state.rounds_done, rows=len(rows), next=again)
