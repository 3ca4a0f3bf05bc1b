"""Checkpoints in the folder: whole or not there at all.

    checkpoints/round_R/{node}/
      model/, *.safetensors, *.json     what Snapshot.write made: weights, optimizer; model/ loads as any model does
      node.json                         the node's own state after R rounds

There is no generator state to save: every draw is a function of seed, node and round (swarm.algo.seeds).

    save      .tmp/{node}/checkpoint-* ─rename─▶ checkpoints/round_R/{node}
    again     checkpoints/round_R/{node} ─rename─▶ .tmp/{node}/replaced-round_R, then as above; a node that died between
              the two finds it there when it starts, and puts it back
    prune     checkpoints/round_R/{node} ─rename─▶ .tmp/{node}/pruned-* ─▶ gone
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path

from swarm.errors import CheckpointError, ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.store.folder.beneath import is_folder, make_folder, remove_empty, remove_tree, rename_beneath
from swarm.store.folder.fetch import list_names, list_numbered, read_bounded
from swarm.store.folder.publish import sync_folder, write_new
from swarm.types import Snapshot
from swarm.wire.codec import decode, encode
from swarm.wire.layout import Layout, round_of
from swarm.wire.messages import NodeState

logger = get_logger(__name__)

_REPLACED = "replaced-"


def save_checkpoint(layout: Layout, state: NodeState, snapshot: Snapshot, *, keep: int) -> Path:
    """Write everything beside, then rename it into place; older checkpoints of this node go afterwards. Blocking.

    Args:
        keep: how many of this node's checkpoints stay, the new one included.

    Raises:
        CheckpointError: it cannot be written; what was there stays.
    """
    target = layout.checkpoint(state.rounds_done, state.node_id)
    half = layout.temporary(state.node_id) / f"checkpoint-{uuid.uuid4().hex}"
    try:
        make_folder(half)
        snapshot.write(str(half))
        write_new(half / "node.json", encode(state), durable=True)
        sync_folder(half)
        _swap_in(half, target, layout.temporary(state.node_id))
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {target}: {error.strerror or error}; free space or fix the folder, "
            f"earlier checkpoints are untouched"
        ) from error
    finally:
        _remove(half)  # gone already where all went well
    with contextlib.suppress(StoreError):  # the new one is safe; old ones go next time
        _prune(layout, state.node_id, keep)
    return target


def _swap_in(half: Path, target: Path, temporary: Path) -> None:
    make_folder(target.parent)
    if is_folder(target):  # one that was damaged, or left behind by a run that was taken up before it
        replaced = temporary / f"{_REPLACED}{target.parent.name}"
        _remove(replaced)  # left by an earlier one, and stale while there is one in place
        rename_beneath(target, replaced)
        try:
            rename_beneath(half, target)
        except OSError:
            rename_beneath(replaced, target)
            raise
        sync_folder(target.parent)
        _remove(replaced)
    else:
        rename_beneath(half, target)
        sync_folder(target.parent)


def _prune(layout: Layout, node_id: str, keep: int) -> None:
    for rounds_done in _own_rounds(layout, node_id)[:-keep]:
        folder = layout.checkpoint(rounds_done, node_id)
        gone = layout.temporary(node_id) / f"pruned-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):  # what cannot be removed now is found again next time
            rename_beneath(folder, gone)  # first out of sight, so that nobody finds half of it
            _remove(gone)
            remove_empty(folder.parent)  # not while other nodes have a checkpoint there; another may also be quicker


def _own_rounds(layout: Layout, node_id: str) -> list[int]:
    return [r for r in list_numbered(layout.checkpoints, round_of) if is_folder(layout.checkpoint(r, node_id))]


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):  # found again when the node starts
        remove_tree(folder)


def restore_newest(layout: Layout, node_id: str, restore: Callable[[str], None]) -> NodeState | None:
    """Load this node's newest checkpoint, or, past damaged ones, the newest that can be loaded. Blocking.

    Args:
        restore: loads the policy's part out of a folder, all of it or nothing; raises CheckpointError.

    Returns:
        The node's state then, None if it has no checkpoint.

    Raises:
        CheckpointError: it has some, and none of them can be loaded.
    """
    damaged: CheckpointError | None = None
    for rounds_done in reversed(_own_rounds(layout, node_id)):
        folder = layout.checkpoint(rounds_done, node_id)
        try:
            state = _read_state(folder, node_id, rounds_done)
            restore(str(folder))
        except CheckpointError as error:
            damaged = damaged or error
            logger.error("checkpoint.damaged", folder=str(folder), error=str(error), next="the one before")
        else:
            return state
    if damaged:
        raise damaged
    return None


def _read_state(folder: Path, node_id: str, rounds_done: int) -> NodeState:
    file = folder / "node.json"
    try:
        state = decode(read_bounded(file, 1 << 20), NodeState, str(file))
    except (FileNotFoundError, ProtocolError) as error:
        raise _damaged(folder, str(error)) from None
    if (state.node_id, state.rounds_done) != (node_id, rounds_done):
        raise _damaged(
            folder,
            f"expected that of {node_id} after {rounds_done} rounds, "
            f"got that of {state.node_id!r} after {state.rounds_done}",
        )
    return state


def _damaged(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {folder} is damaged ({why}); move it away to go on from the one before, or to begin anew"
    )


def recover_temporary(layout: Layout, node_id: str) -> None:
    """Put back a checkpoint whose replacement a death cut short, and remove what else was left half-done. Blocking."""
    temporary = layout.temporary(node_id)
    with contextlib.suppress(StoreError):
        for name in list_names(temporary):
            if name.startswith(_REPLACED) and (round_ := round_of(name.removeprefix(_REPLACED))) is not None:
                _put_back(temporary / name, layout.checkpoint(round_, node_id))
        _remove(temporary)  # not where it cannot be listed: the only copy of a checkpoint may lie there


def _put_back(replaced: Path, target: Path) -> None:
    if is_folder(target):
        return
    try:
        make_folder(target.parent)
        rename_beneath(replaced, target)
    except OSError as error:
        raise CheckpointError(
            f"cannot put the checkpoint {replaced} back to {target}: {error.strerror or error}; fix the folder"
        ) from error
    logger.warning("checkpoint.put_back", folder=str(target))
