"""Checkpoints: bundles of the store, so whole or not there at all.

    checkpoints/round_R/{node}/
      model/, *.safetensors, *.json     what Snapshot.write made: weights, optimizer; model/ loads as any model does
      node.json                         the node's own state after R rounds

There is no generator state to save: every draw is a function of seed, node and round (swarm.algo.seeds). Of a node's
own completions those stay that the rounds since its oldest checkpoint need to be redone.

first_day is the date of a node's first start, which stays in its prompts where its model's chat template writes one.
logs/{node}/starts.jsonl says it; before the first start it is today.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from swarm.errors import CheckpointError, ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.records.listing import rounds_in
from swarm.records.starts import starts_of
from swarm.store.base import Kind, Store
from swarm.types import Snapshot
from swarm.wire import keys
from swarm.wire.codec import decode, encode
from swarm.wire.messages import NodeState

logger = get_logger(__name__)

STATE = "node.json"
LARGEST_STATE = 1 << 20
"""Bytes."""


def save_checkpoint(store: Store, state: NodeState, snapshot: Snapshot, *, keep: int, stages: int = 1) -> str:
    """Write a checkpoint; older ones of this node go afterwards. Blocking.

    Args:
        keep: how many of this node's checkpoints stay, the new one included.
        stages: of a round of the run.

    Returns:
        Where it is.

    Raises:
        CheckpointError: it cannot be written; what was there stays.
    """
    prefix = keys.checkpoint(state.rounds_done, state.node_id)
    where = store.describe(prefix)
    try:
        store.put_bundle(prefix, partial(_fill, snapshot, state))
    except StoreError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {where}: {error}; free space or fix the folder, "
            f"earlier checkpoints are untouched"
        ) from error
    with suppress(StoreError):  # the new one is safe; what is old is found again next time
        _prune(store, state.node_id, keep, state.rounds_done, stages)
    return where


def _fill(snapshot: Snapshot, state: NodeState, folder: object) -> None:
    snapshot.write(str(folder))
    with open(f"{folder}/{STATE}", "xb") as file:
        file.write(encode(state))


def _prune(store: Store, node: str, keep: int, newest: int, stages: int) -> None:
    """Removes this node's checkpoints and completions beyond the newest `keep`. Those that seem newer than the one just
    written are not counted: anybody can make a folder of that name."""
    rounds = [rounds_done for rounds_done in own_rounds(store, node) if rounds_done <= newest]
    for rounds_done in rounds[:-keep]:
        store.remove_prefix(keys.checkpoint(rounds_done, node))
    for round_ in rounds_in(store, keys.COMPLETIONS):
        if round_ < rounds[-keep:][0]:
            for stage in range(stages):
                store.remove(keys.completions(round_, node, stage))


def own_rounds(store: Store, node: str) -> list[int]:
    """Returns the rounds behind each of a node's checkpoints, in order. Raises StoreError."""
    return [r for r in rounds_in(store, keys.CHECKPOINTS) if _holds_files(store, keys.checkpoint(r, node))]


def _holds_files(store: Store, prefix: str) -> bool:
    """Tells whether files are there; no node leaves a link or a folder without files, as a bundle is there whole or
    not."""
    with suppress(StoreError):  # it, or what is above it, is a link or a file
        return any(entry.kind is Kind.FILE for entry in store.list(prefix).entries)
    return False


def restore_newest(store: Store, node: str, restore: Callable[[str], None]) -> NodeState | None:
    """Load this node's newest checkpoint, or, past damaged ones, the newest that can be loaded. Blocking.

    Args:
        restore: loads the policy's part out of a folder, all of it or nothing; raises CheckpointError.

    Returns:
        The node's state then, None if it has no checkpoint.

    Raises:
        CheckpointError: it has some, and none of them can be loaded; or the newest whole one is of another model.
    """
    damaged: CheckpointError | None = None
    for rounds_done in reversed(own_rounds(store, node)):
        prefix = keys.checkpoint(rounds_done, node)
        where = store.describe(prefix)
        try:
            with store.open_bundle(prefix) as folder:
                state = read_state(f"{folder}/{STATE}", where, node, rounds_done)
                restore(str(folder))
        except (CheckpointError, ProtocolError, FileNotFoundError) as error:
            if isinstance(error, CheckpointError) and error.other_model:
                raise  # an older one that fits would take back what this node has learned since
            damaged = damaged or (error if isinstance(error, CheckpointError) else _damaged(where, str(error)))
            logger.error("checkpoint.damaged", folder=where, error=str(error), next="the one before")
        else:
            return state
    if damaged:
        raise damaged
    return None


def read_state(file: str, where: str, node: str, rounds_done: int) -> NodeState:
    """Returns a node's own state, out of an opened bundle. Raises CheckpointError if it cannot be taken."""
    try:
        with open(file, "rb") as opened:
            state = decode(opened.read(LARGEST_STATE), NodeState, f"{where}/{STATE}")
    except (OSError, ProtocolError) as error:
        raise _damaged(where, str(error)) from None
    if (state.node_id, state.rounds_done) != (node, rounds_done):
        raise _damaged(
            where,
            f"expected that of {node} after {rounds_done} rounds, got that of {state.node_id!r} after "
            f"{state.rounds_done}",
        )
    return state


def _damaged(where: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {where} is damaged ({why}); move it away to go on from the one before, or to begin anew"
    )


def first_day(ctx: NodeContext) -> str:
    """Returns the UTC date of a node's first start, such as 2026-01-31. Blocking."""
    wall = ctx.clock.wall()
    with suppress(StoreError):
        if start := next(starts_of(ctx.run, ctx.node_id), None):
            wall = start.timestamp
    return datetime.fromtimestamp(wall, UTC).date().isoformat()
