"""Checkpoints in the folder: whole or not there at all.

    checkpoints/round_R/{node}/
      model/, *.safetensors, *.json     what Snapshot.write made: weights, optimizer; model/ loads as any model does
      node.json                         the node's own state after R rounds

There is no generator state to save: every draw is a function of seed, node and round (swarm.sapo.seeds).
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from pathlib import Path

from swarm.errors import CheckpointError, FolderError, ProtocolError
from swarm.folder.fetch import list_numbered, read_bounded
from swarm.folder.publish import sync_folder, write_new
from swarm.protocol.codec import decode, encode
from swarm.protocol.layout import Layout, round_of
from swarm.protocol.messages import NodeState
from swarm.types import Snapshot


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
        half.mkdir(parents=True)
        snapshot.write(str(half))
        write_new(half / "node.json", encode(state), durable=True)
        sync_folder(half)
        _swap_in(half, target)
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {target}: {error.strerror or error}; free space or mend the folder, "
            f"earlier checkpoints are untouched"
        ) from error
    finally:
        shutil.rmtree(half, ignore_errors=True)  # gone already where all went well
    with contextlib.suppress(FolderError):  # the new one is safe; old ones go next time
        _prune(layout, state.node_id, keep)
    return target


def _swap_in(half: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():  # the same round was done again after a crash: the new one replaces it
        old = half.with_name(f"{half.name}-old")
        target.rename(old)
        try:
            half.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        half.rename(target)
    sync_folder(target.parent)


def _prune(layout: Layout, node_id: str, keep: int) -> None:
    for rounds_done in _own_rounds(layout, node_id)[:-keep]:
        folder = layout.checkpoint(rounds_done, node_id)
        gone = layout.temporary(node_id) / f"pruned-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):  # what cannot be removed now is found again next time
            folder.rename(gone)  # first out of sight, so that nobody finds half of it
            shutil.rmtree(gone, ignore_errors=True)
            folder.parent.rmdir()  # not while other nodes have a checkpoint there; another may also be quicker


def _own_rounds(layout: Layout, node_id: str) -> list[int]:
    return [r for r in list_numbered(layout.checkpoints, round_of) if layout.checkpoint(r, node_id).is_dir()]


def newest_checkpoint(layout: Layout, node_id: str) -> tuple[NodeState, Path] | None:
    """This node's newest checkpoint, None if it has none. Blocking.

    Raises:
        CheckpointError: it is there but not readable.
    """
    rounds = _own_rounds(layout, node_id)
    if not rounds:
        return None
    folder = layout.checkpoint(rounds[-1], node_id)
    try:
        return decode(read_bounded(folder / "node.json", 1 << 20), NodeState, str(folder / "node.json")), folder
    except (FileNotFoundError, ProtocolError) as error:
        raise CheckpointError(
            f"the checkpoint {folder} is damaged ({error}); move it away to go on from the one before, or to begin anew"
        ) from None


def clear_temporary(layout: Layout, node_id: str) -> None:
    """Remove what an earlier process of this node left half-written. Blocking."""
    shutil.rmtree(layout.temporary(node_id), ignore_errors=True)
